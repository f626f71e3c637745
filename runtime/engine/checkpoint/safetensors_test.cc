#include "runtime/engine/checkpoint/safetensors.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "runtime/base/files/temporary_directory.h"

namespace medley {
namespace {

using Catch::Matchers::Contains;

std::string WithLength(uint64_t length, const std::string& rest) {
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + rest;
}

std::string File(const std::string& header, const std::string& data) {
  return WithLength(header.size(), header + data);
}

std::string Words(const std::vector<uint16_t>& words) {
  return std::string(reinterpret_cast<const char*>(words.data()), words.size() * 2);
}

std::vector<float> RandomValues(std::mt19937_64& random, size_t count) {
  std::vector<float> values(count);
  for (float& value : values) value = std::normal_distribution<float>()(random);
  return values;
}

TEST_CASE("what is written is read back, names, shapes, values and metadata") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{50}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::vector<TensorDeclaration> declarations;
  std::vector<std::vector<float>> values;
  for (uint64_t i = 0, count = random() % 6; i < count; ++i) {
    TensorDeclaration declaration = {.name = "tensor \"" + std::to_string(i) + "\" é"};
    size_t elements = 1;
    for (uint64_t dimension = random() % 4; dimension-- > 0;) {
      declaration.shape.push_back(static_cast<int64_t>(random() % 5));
      elements *= static_cast<size_t>(declaration.shape.back());
    }
    declarations.push_back(std::move(declaration));
    values.push_back(RandomValues(random, elements));
  }
  const TemporaryDirectory directory;
  const std::string path = directory.File("a.safetensors");
  auto writer = SafetensorsWriter::Create(path, declarations, {{"format", "pt"}});
  REQUIRE(writer.ok());
  for (const auto& tensor : values) REQUIRE(writer->Append(tensor).ok());
  const auto digest = writer->Commit();
  REQUIRE(digest.ok());

  const auto file = SafetensorsFile::Open(path);
  INFO(file.status().ToString());
  REQUIRE(file.ok());
  CHECK(DigestOf(file->bytes()) == *digest);
  CHECK(file->tensors().size() == declarations.size());
  CHECK(file->metadata() == std::map<std::string, std::string>{{"format", "pt"}});
  for (size_t i = 0; i < declarations.size(); ++i) {
    std::vector<float> read(values[i].size());
    REQUIRE(file->ReadAsF32(declarations[i].name, declarations[i].shape, absl::MakeSpan(read)).ok());
    CHECK(read == values[i]);
  }
}

TEST_CASE("half precision is widened exactly") {
  const TemporaryDirectory directory;
  const float infinity = std::numeric_limits<float>::infinity();
  const auto read = [&directory](const std::string& dtype, const std::vector<uint16_t>& words) {
    const std::string n = std::to_string(words.size()), bytes = std::to_string(2 * words.size());
    // The header's odd length leaves the tensor unaligned.
    std::string header =
        R"({"w":{"dtype":")" + dtype + R"(","shape":[)" + n + R"(],"data_offsets":[0,)" + bytes + "]}}";
    if (header.size() % 2 == 0) header += " ";
    const auto file = SafetensorsFile::Open(directory.Write(dtype, File(header, Words(words))));
    REQUIRE(file.ok());
    std::vector<float> values(words.size());
    REQUIRE(file->ReadAsF32("w", {static_cast<int64_t>(words.size())}, absl::MakeSpan(values)).ok());
    return values;
  };
  CHECK(read("F16", {0x0000, 0x3c00, 0xc000, 0x3555, 0x7bff, 0x0400, 0x03ff, 0x0001, 0x7c00, 0xfc00}) ==
        std::vector<float>{0.0f, 1.0f, -2.0f, 0x1.554p-2f, 65504.0f, 0x1p-14f, 0x1.ff8p-15f, 0x1p-24f,
                           infinity, -infinity});
  CHECK(read("BF16", {0x0000, 0x3f80, 0xc000, 0x3eab, 0x7f80}) ==
        std::vector<float>{0.0f, 1.0f, -2.0f, 0x1.56p-2f, infinity});
  CHECK(std::isnan(read("F16", {0x7e00})[0]));
  CHECK(std::signbit(read("F16", {0x8000})[0]));
  // Every finite half, against the definition.
  for (uint32_t bits = 0; bits < 0x7c00; bits += 7) {
    const int exponent = static_cast<int>(bits >> 10);
    const int fraction = static_cast<int>(bits & 0x3ff);
    const float expected = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                         : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
    CAPTURE(bits);
    if (bits % 97 == 0) CHECK(read("F16", {static_cast<uint16_t>(bits)})[0] == expected);
  }
}

TEST_CASE("a malformed file is refused with its name and the cause") {
  const std::string a = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  struct Case {
    std::string name, contents, cause;
  };
  const auto c = GENERATE_COPY(values<Case>({
      {"empty", "", "truncated: 0 bytes"},
      {"seven bytes", "1234567", "truncated: 7 bytes"},
      {"long header", WithLength(100'000'001, "{}"), "at most 100000000"},
      {"endless header", WithLength(~uint64_t{0}, "{}"), "at most 100000000"},
      {"truncated header", WithLength(100, "{}"), "truncated: header of 100 bytes in a file of 10"},
      {"no header", File("", ""), "not JSON"},
      {"not JSON", File("{\"a\":", ""), "not JSON"},
      {"not an object", File("[]", ""), "must be a JSON object"},
      {"nested", File(std::string(100'000, '['), ""), "nested deeper"},
      {"twice", File("{" + a + "," + a + "}", std::string(8, 'x')), "stands twice"},
      {"tensor is no object", File(R"({"a":3})", ""), "not an object"},
      {"no dtype", File(R"({"a":{"shape":[2],"data_offsets":[0,8]}})", ""), "\"dtype\" is missing"},
      {"unknown dtype", File(R"({"a":{"dtype":"F9","shape":[],"data_offsets":[0,0]}})", ""),
       "unknown dtype \"F9\""},
      {"unknown member", File("{" + a.substr(0, a.size() - 1) + R"(,"strides":[1]}})", std::string(8, 'x')),
       "members other"},
      {"negative size", File(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", ""),
       "\"shape\" is [-2]"},
      {"fractional size", File(R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", ""),
       "\"shape\" is [2.0]"},
      {"one offset", File(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", ""), "\"data_offsets\""},
      {"backwards", File(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", std::string(8, 'x')),
       "\"data_offsets\""},
      {"past the end", File("{" + a + "}", "short"), "within the 5 bytes"},
      {"far past the end",
       File(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,18446744073709551615]}})", "x"),
       "\"data_offsets\""},
      {"other size", File(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", std::string(8, 'x')),
       "another size"},
      {"overflowing shape",
       File(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", ""),
       "too large"},
      {"overflowing bytes",
       File(R"({"a":{"dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,0]}})", ""),
       "another size"},
      {"overlap",
       File("{" + a + R"(,"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", std::string(12, 'x')),
       "\"a\" and \"b\" overlap"},
      {"gap",
       File("{" + a + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}})", std::string(16, 'x')),
       "bytes 8 to 12 before"},
      {"surplus", File("{" + a + "}", std::string(9, 'x')), "bytes 8 to 9 after"},
      {"metadata of numbers", File(R"({"__metadata__":{"a":1}})", ""), "must be a string"},
  }));
  CAPTURE(c.name);
  const TemporaryDirectory directory;
  const auto file = SafetensorsFile::Open(directory.Write("bad.safetensors", c.contents));
  REQUIRE(absl::IsInvalidArgument(file.status()));
  CHECK_THAT(std::string(file.status().message()), Contains("bad.safetensors") && Contains(c.cause));
}

TEST_CASE("a damaged file is an error or still a consistent one, never a crash") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{1500}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::string contents =
      File(R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
           R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[8,14]}})",
           std::string(14, 'x'));
  for (uint64_t damages = 1 + random() % 3; damages-- > 0;) {
    const size_t at = random() % contents.size();
    switch (random() % 4) {
      case 0:
        contents[at] = static_cast<char>(random());
        break;
      case 1:
        contents[at] ^= static_cast<char>(1 << (random() % 8));
        break;
      case 2:
        contents.erase(at, 1 + random() % 3);
        break;
      default:
        contents.insert(at, contents.substr(random() % contents.size(), random() % 8));
        break;
    }
    if (contents.empty()) contents = "x";
  }
  const TemporaryDirectory directory;
  const auto file = SafetensorsFile::Open(directory.Write("damaged.safetensors", contents));
  if (!file.ok()) {
    CHECK(absl::IsInvalidArgument(file.status()));
    return;
  }
  int64_t covered = 0;
  for (const StoredTensor& tensor : file->tensors()) {
    CHECK(tensor.begin == covered);
    covered = tensor.end;
    std::vector<float> values(static_cast<size_t>(tensor.elements));
    const absl::Status status = file->ReadAsF32(tensor.name, tensor.shape, absl::MakeSpan(values));
    CHECK((status.ok() || absl::IsInvalidArgument(status)));
  }
}

TEST_CASE("a tensor of another dtype, shape or name is refused with what it is") {
  const TemporaryDirectory directory;
  const std::string header = R"({"ids":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)"
                             R"("w":{"dtype":"F32","shape":[1,2],"data_offsets":[8,16]}})";
  const auto file =
      SafetensorsFile::Open(directory.Write("a.safetensors", File(header, std::string(16, '\0'))));
  REQUIRE(file.ok());
  std::vector<float> one(1), two(2);
  const absl::Status dtype = file->ReadAsF32("ids", {1}, absl::MakeSpan(one));
  CHECK(absl::IsInvalidArgument(dtype));
  CHECK_THAT(std::string(dtype.message()), Contains("\"ids\" has dtype I64"));
  const absl::Status shape = file->ReadAsF32("w", {2, 1}, absl::MakeSpan(two));
  CHECK(absl::IsInvalidArgument(shape));
  CHECK_THAT(std::string(shape.message()), Contains("shape [1, 2], should have [2, 1]"));
  CHECK(absl::IsInvalidArgument(file->ReadAsF32("w", {1, 2}, absl::MakeSpan(one))));
  CHECK(absl::IsNotFound(file->ReadAsF32("none", {1}, absl::MakeSpan(one))));
}

TEST_CASE("a writer refuses what it was not told of") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("a.safetensors");
  CHECK(absl::IsInvalidArgument(SafetensorsWriter::Create(path, {{"a", {1}}, {"a", {1}}}, {}).status()));
  CHECK(absl::IsInvalidArgument(SafetensorsWriter::Create(path, {{"a", {-1}}}, {}).status()));
  {
    auto writer = SafetensorsWriter::Create(path, {{"a", {2}}}, {});
    REQUIRE(writer.ok());
    CHECK(absl::IsInvalidArgument(writer->Append({1.0f})));
    CHECK(absl::IsFailedPrecondition(writer->Commit().status()));
    CHECK(writer->Append({1.0f, 2.0f}).ok());
    CHECK(absl::IsInvalidArgument(writer->Append({1.0f, 2.0f})));
  }
  CHECK_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace medley
