#include "runtime/engine/data/token_file.h"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "runtime/base/files/temporary_directory.h"

namespace medley {
namespace {

using Catch::Matchers::Contains;

template <typename Integer>
std::string Raw(const std::vector<Integer>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Integer));
}

template <typename Integer>
std::string LlmC(const std::vector<Integer>& ids, int32_t magic, int32_t version, int32_t count) {
  std::vector<int32_t> header(256, 0);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return Raw(header) + Raw(ids);
}

std::vector<int32_t> ReadAll(const TokenFile& file) {
  std::vector<int32_t> ids(static_cast<size_t>(file.tokens()));
  const absl::Status status = file.Read(0, absl::MakeSpan(ids));
  INFO(status.ToString());
  REQUIRE(status.ok());
  return ids;
}

TEST_CASE("each format is recognised and gives the same ids") {
  const TemporaryDirectory directory;
  const std::vector<int32_t> expected = {77, 101, 100, 108, 101, 121};
  const std::vector<uint16_t> ids(expected.begin(), expected.end());
  const std::vector<uint32_t> wide(expected.begin(), expected.end());
  struct Case {
    std::string name, contents;
    TokenFormat format;
    int vocabulary;
  };
  const auto c = GENERATE_COPY(values<Case>({
      {"a.txt", "Medley", TokenFormat::kText, 256},
      {"a.bin", Raw(ids), TokenFormat::kUint16, 256},
      {"a.bin", Raw(ids), TokenFormat::kUint16, 65536},
      {"b.bin", LlmC(ids, 20240520, 1, 6), TokenFormat::kLlmC, 256},
      {"c.bin", Raw(wide), TokenFormat::kUint32, 65537},
      {"d.bin", LlmC(wide, 20240801, 7, 6), TokenFormat::kLlmC, 256},
  }));
  const TokenFormat asked = GENERATE_COPY(TokenFormat::kAutomatic, c.format);
  CAPTURE(c.name, asked);
  const auto file = TokenFile::Open(directory.Write(c.name, c.contents), asked, c.vocabulary);
  INFO(file.status().ToString());
  REQUIRE(file.ok());
  CHECK(file->format() == c.format);
  CHECK(ReadAll(*file) == expected);
}

template <typename Integer>
void CheckAnyRange(TokenFormat format, int vocabulary, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Integer> ids(1 + random() % 200);
  for (Integer& id : ids) id = static_cast<Integer>(random() % vocabulary);
  const TemporaryDirectory directory;
  const auto file = TokenFile::Open(directory.Write("a.bin", Raw(ids)), format, vocabulary);
  REQUIRE(file.ok());
  const int64_t position = static_cast<int64_t>(random() % (ids.size() + 2)) - 1;
  std::vector<int32_t> read(random() % (ids.size() + 2));
  const int64_t end = position + static_cast<int64_t>(read.size());
  CAPTURE(position, end, ids.size());
  const absl::Status status = file->Read(position, absl::MakeSpan(read));
  if (position < 0 || end > file->tokens()) {
    CHECK(absl::IsOutOfRange(status));
  } else {
    REQUIRE(status.ok());
    CHECK(read == std::vector<int32_t>(ids.begin() + position, ids.begin() + end));
  }
}

TEST_CASE("any range inside a file is read, and none that passes its ends") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{30}));
  CAPTURE(seed);
  CheckAnyRange<uint8_t>(TokenFormat::kText, 256, seed);
  CheckAnyRange<uint16_t>(TokenFormat::kUint16, 65536, seed);
  CheckAnyRange<uint32_t>(TokenFormat::kUint32, 128256, seed);
}

TEST_CASE("a malformed file is refused with its name and the cause") {
  const std::vector<uint16_t> four = {1, 2, 3, 4};
  struct Case {
    std::string name, contents;
    TokenFormat format;
    std::string cause;
  };
  const auto c = GENERATE_COPY(values<Case>({
      {"empty.txt", "", TokenFormat::kAutomatic, "empty"},
      {"odd.bin", "abc", TokenFormat::kAutomatic, "3 bytes are no whole number of 16-bit tokens"},
      {"odd.bin", "abcdef", TokenFormat::kUint32, "6 bytes are no whole number of 32-bit tokens"},
      {"few.bin", LlmC(four, 20240520, 1, 5), TokenFormat::kAutomatic, "counts 5 tokens"},
      {"many.bin", LlmC(four, 20240520, 1, 3), TokenFormat::kAutomatic, "counts 3 tokens"},
      {"negative.bin", LlmC(four, 20240520, 1, -4), TokenFormat::kAutomatic, "counts -4 tokens"},
      {"none.bin", LlmC<uint16_t>({}, 20240520, 1, 0), TokenFormat::kAutomatic, "no tokens"},
      {"version.bin", LlmC(four, 20240520, 2, 4), TokenFormat::kAutomatic, "version is 2"},
      {"header.bin", LlmC(four, 20240520, 1, 4).substr(0, 1000), TokenFormat::kAutomatic,
       "truncated llm.c header"},
      {"tiny.bin", "ab", TokenFormat::kLlmC, "truncated llm.c header"},
      {"magic.bin", LlmC(four, 7, 1, 4), TokenFormat::kLlmC, "magic number is 7"},
      {"narrow.bin", LlmC(four, 20240801, 7, 4), TokenFormat::kAutomatic,
       "counts 4 tokens (16 bytes), but 8"},
      {"other.bin", LlmC(four, 20240801, 1, 4), TokenFormat::kAutomatic, "version is 1, should be 7"},
  }));
  CAPTURE(c.name);
  const TemporaryDirectory directory;
  const auto file = TokenFile::Open(directory.Write(c.name, c.contents), c.format, 256);
  REQUIRE(absl::IsInvalidArgument(file.status()));
  CHECK_THAT(std::string(file.status().message()), Contains(c.name) && Contains(c.cause));
}

TEST_CASE("what is no file is refused with its name") {
  const TemporaryDirectory directory;
  const auto missing = TokenFile::Open(directory.File("missing.bin"), TokenFormat::kAutomatic, 256);
  CHECK(absl::IsNotFound(missing.status()));
  CHECK_THAT(std::string(missing.status().message()), Contains("missing.bin") && Contains("No such file"));
  const auto folder = TokenFile::Open(directory.path(), TokenFormat::kAutomatic, 256);
  CHECK(absl::IsInvalidArgument(folder.status()));
  const auto vocabulary = TokenFile::Open(directory.Write("a.txt", "a"), TokenFormat::kAutomatic, 0);
  CHECK(absl::IsInvalidArgument(vocabulary.status()));
  CHECK_THAT(std::string(vocabulary.status().message()), Contains("vocabulary is 0"));
}

TEST_CASE("an id outside the vocabulary is an error that says which and where") {
  const TemporaryDirectory directory;
  const std::vector<uint16_t> ids = {0, 96, 97, 5};
  const auto file = TokenFile::Open(directory.Write("ids.bin", Raw(ids)), TokenFormat::kAutomatic, 97);
  REQUIRE(file.ok());
  std::vector<int32_t> read(2);
  CHECK(file->Read(0, absl::MakeSpan(read)).ok());
  const absl::Status status = file->Read(1, absl::MakeSpan(read));
  REQUIRE(absl::IsInvalidArgument(status));
  CHECK_THAT(std::string(status.message()), Contains("ids.bin") && Contains("token 97") &&
                                                Contains("position 2") && Contains("vocabulary of 97"));
}

TEST_CASE("an id that no 32-bit integer with a sign holds is an error, not a negative id") {
  const TemporaryDirectory directory;
  const std::vector<uint32_t> ids = {0, 0xffffffff};
  const auto file = TokenFile::Open(directory.Write("ids.bin", Raw(ids)), TokenFormat::kUint32, 97);
  REQUIRE(file.ok());
  std::vector<int32_t> read(2);
  const absl::Status status = file->Read(0, absl::MakeSpan(read));
  REQUIRE(absl::IsInvalidArgument(status));
  CHECK_THAT(std::string(status.message()), Contains("token 4294967295 at position 1"));
}

TEST_CASE("a file that shrinks after it was opened is an error of the read") {
  const TemporaryDirectory directory;
  const std::string path = directory.Write("a.txt", std::string(20000, 'x'));
  const auto file = TokenFile::Open(path, TokenFormat::kAutomatic, 256);
  REQUIRE(file.ok());
  std::filesystem::resize_file(path, 10);
  std::vector<int32_t> read(100);
  const absl::Status status = file->Read(19000, absl::MakeSpan(read));
  CHECK(absl::IsFailedPrecondition(status));
  CHECK_THAT(std::string(status.message()), Contains("ends before byte 19100") && Contains("it had 20000"));
}

}  // namespace
}  // namespace medley
