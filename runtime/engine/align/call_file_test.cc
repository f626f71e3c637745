#include "runtime/engine/align/call_file.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <set>

#include "runtime/engine/align/file_parts.h"

namespace medley {
namespace {

using Bytestring = std::vector<std::byte>;

Bytestring Joined(const FileParts& parts) {
  Bytestring file = parts.head;
  for (const auto& body : parts.bodies) file.insert(file.end(), body.begin(), body.end());
  return file;
}

// Converts to any field of an aggregate.
struct AnyField {
  template <typename T>
  operator T() const;
};
template <typename T, typename... Fields>
constexpr int FieldCount() {
  if constexpr (requires { T{Fields{}..., AnyField{}}; }) {
    return FieldCount<T, Fields..., AnyField>();
  } else {
    return sizeof...(Fields);
  }
}

struct CountFields {
  std::set<std::string> names;
  template <typename Elements>
  void Operand(const char* name, Slice&, const Elements&, const OperandUse&) {
    names.insert(name);
  }
  void Size(const char* name, int64_t&) { names.insert(name); }
  void Step(const char* name, int64_t&) { names.insert(name); }
  void Index(const char* name, int64_t&) { names.insert(name); }
  void Number(const char* name, float&) { names.insert(name); }
  template <typename Enum, size_t N>
  void Choice(const char* name, Enum&, const char* const (&)[N]) {
    names.insert(name);
  }
  void Ranges(const char* name, absl::Span<const AdamWRange>&) { names.insert(name); }
};

// Any value of any field.
struct RandomFields {
  std::mt19937_64& random;
  std::vector<AdamWRange>& ranges;

  template <typename Elements>
  void Operand(const char*, Slice& slice, const Elements&, const OperandUse& use) {
    if (!use.optional || random() % 2 == 0) slice = PlacelessSlice(0);
  }
  void Size(const char*, int64_t& value) { value = static_cast<int64_t>(random() % 4); }
  void Step(const char*, int64_t& value) { value = 1 + static_cast<int64_t>(random() % 100); }
  void Index(const char*, int64_t& value) { value = static_cast<int64_t>(random() % 100); }
  void Number(const char*, float& value) { value = std::normal_distribution<float>()(random); }
  template <typename Enum, size_t N>
  void Choice(const char*, Enum& value, const char* const (&)[N]) {
    value = static_cast<Enum>(random() % N);
  }
  void Ranges(const char*, absl::Span<const AdamWRange>&) {
    int64_t end = 0;
    for (int i = random() % 4; i > 0; --i) {
      ranges.push_back({.first = end + static_cast<int64_t>(random() % 3),
                        .elements = static_cast<int64_t>(random() % 5),
                        .weight_decay = 0.1f});
      end = ranges.back().first + ranges.back().elements;
    }
  }
};

// A call of `args`' op that could have been captured; none if the fields drawn contradict each other.
template <typename Args>
CapturedCall RandomCall(Args args, std::mt19937_64& random) {
  CapturedCall call{.place = {.index = 12, .step = 2, .position = "h.0.attn.c_attn.weight"}};
  RandomFields fields{random, call.ranges};
  VisitFields(args, fields);
  if constexpr (std::is_same_v<Args, MatmulArgs>) {
    args.pre_activation = args.epilogue == Epilogue::kNone ? Slice{} : PlacelessSlice(0);
  }
  if constexpr (std::is_same_v<Args, HeadLossArgs>) {
    if (args.dx.empty() != args.dweight.empty()) args.dx = args.dweight = {};
    args.vocabulary += 1;  // there is a target 0
  }
  call.args = args;
  for (const OpSlice& operand : Operands(call)) {
    CapturedTensor tensor{
        .name = operand.name, .dtype = operand.dtype, .access = operand.access, .elements = operand.elements};
    if (operand.access != Access::kWrite) {
      tensor.before.resize(tensor.elements * SizeOf(tensor.dtype).value);
      if (tensor.dtype != Dtype::kI32) {
        for (std::byte& byte : tensor.before) byte = static_cast<std::byte>(random());
      }
    }
    call.tensors.push_back(std::move(tensor));
  }
  return call;
}

TEST_CASE("every field of every op is written: a new one fails here"){
#define MEDLEY_CHECK_FIELDS(name)                                              \
  {                                                                            \
    name##Args args;                                                           \
    CountFields counted;                                                       \
    VisitFields(args, counted);                                                \
    CAPTURE(#name);                                                            \
    CHECK(static_cast<int>(counted.names.size()) == FieldCount<name##Args>()); \
  }
    MEDLEY_EACH_OP(MEDLEY_CHECK_FIELDS)
#undef MEDLEY_CHECK_FIELDS
}

TEST_CASE("a call of any op comes back from its file as it was", "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{30}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
#define MEDLEY_ROUND_TRIP(name)                                 \
  {                                                             \
    CAPTURE(#name);                                             \
    const CapturedCall call = RandomCall(name##Args{}, random); \
    const absl::Status possible = CheckCall(call);              \
    CAPTURE(possible);                                          \
    CHECK(possible.ok());                                       \
    const Bytestring file = Joined(EncodeCall(call));           \
    absl::StatusOr<CapturedCall> back = DecodeCall(file);       \
    CAPTURE(back.status());                                     \
    REQUIRE(back.ok());                                         \
    CHECK(back->kind() == OpKind::k##name);                     \
    CHECK(back->place.index == 12);                             \
    CHECK(back->place.step == 2);                               \
    CHECK(back->place.position == call.place.position);         \
    CHECK(ShapeOf(*back) == ShapeOf(call));                     \
    CHECK(Joined(EncodeCall(*back)) == file);                   \
    for (size_t i = 0; i < call.tensors.size(); ++i) {          \
      CHECK(back->tensors[i].before == call.tensors[i].before); \
    }                                                           \
  }
  MEDLEY_EACH_OP(MEDLEY_ROUND_TRIP)
#undef MEDLEY_ROUND_TRIP
}

CapturedCall MatmulCall() {
  MatmulArgs args{.m = 2,
                  .n = 3,
                  .k = 4,
                  .transpose_b = Transpose::kYes,
                  .store = Store::kAdd,
                  .precision = Precision::kBf16};
  args.a = args.b = args.c = PlacelessSlice(0);
  CapturedCall call{.place = {.index = 3, .step = 1, .position = "h.0.mlp.c_fc.weight"}, .args = args};
  call.tensors = {{"a", Dtype::kF32, Access::kRead, 8, -1, Bytestring(32, std::byte{1})},
                  {"b", Dtype::kF32, Access::kRead, 12, -1, Bytestring(48, std::byte{2})},
                  {"c", Dtype::kF32, Access::kUpdate, 6, -1, Bytestring(24, std::byte{3})}};
  return call;
}

TEST_CASE("a shape has the sizes and what is not by default") {
  CHECK(ShapeOf(MatmulCall()) == "m=2 n=3 k=4 transpose_b add");
}

TEST_CASE("a call that has a precision can be given another") {
  CapturedCall call = MatmulCall();
  CHECK(HasPrecision(call));
  SetPrecision(call, Precision::kF32);
  CHECK(std::get<MatmulArgs>(call.args).precision == Precision::kF32);
}

TEST_CASE("a file with any byte changed, or cut anywhere, is refused") {
  const CapturedCall whole = MatmulCall();
  const Bytestring file = Joined(EncodeCall(whole));
  REQUIRE(DecodeCall(file).ok());
  for (size_t i = 0; i < file.size(); ++i) {
    Bytestring damaged = file;
    damaged[i] ^= std::byte{0x10};
    const absl::StatusOr<CapturedCall> call = DecodeCall(damaged);
    CAPTURE(i);
    REQUIRE_FALSE(call.ok());
    REQUIRE((absl::IsInvalidArgument(call.status()) || absl::IsDataLoss(call.status())));
    REQUIRE_FALSE(DecodeCall(absl::MakeSpan(file).subspan(0, i)).ok());
  }
  Bytestring longer = file;
  longer.push_back(std::byte{0});
  CHECK(absl::IsInvalidArgument(DecodeCall(longer).status()));
}

// The file of MatmulCall() with `from` in its header's text replaced, checksums right.
Bytestring WithHeader(const std::string& from, const std::string& to) {
  const CapturedCall call = MatmulCall();
  const FileParts parts = EncodeCall(call);
  const auto decoded = DecodeParts(Joined(parts));
  std::string text = decoded->header.dump();
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  return Joined(EncodeParts(nlohmann::json::parse(text), parts.bodies));
}

TEST_CASE("a header that lies is refused, with the field and what is allowed") {
  struct Case {
    std::string from, to, says;
  };
  const auto c = GENERATE(values<Case>({
      {"\"op\":\"Matmul\"", "\"op\":\"Matmull\"", "\"op\" is \"Matmull\""},
      {"\"op\":\"Matmul\"", "\"op\":7", "\"op\" is 7, must be a string"},
      {"\"m\":2", "\"m\":-2", "\"m\" is -2"},
      {"\"m\":2", "\"m\":2.5", "\"m\" is 2.5"},
      {"\"m\":2", "\"m\":3", "a has 8 elements, must have 12 or more"},
      {"\"m\":2", "\"m\":9223372036854775807", "product of the sizes over 2^48"},
      {"\"m\":2", "\"M\":2", "\"m\" is missing"},
      {"\"m\":2", "\"m\":2,\"more\":1", "\"arguments\" has"},
      {"\"transpose_b\":\"yes\"", "\"transpose_b\":\"maybe\"", "must be one of: no, yes"},
      {"\"precision\":\"bf16\"", "\"precision\":\"fp8\"", "must be one of: f32, bf16"},
      {"\"epilogue\":\"none\"", "\"epilogue\":\"gelu\"", "3 tensors, must be 4"},
      {"\"name\":\"a\"", "\"name\":\"bias\"", "3 tensors, must be 4"},
      {"\"name\":\"a\"", "\"name\":\"z\"", "z: the shape asks for a"},
      {"\"dtype\":\"f32\"", "\"dtype\":\"f64\"", "a is f64, must be f32 or bf16"},
      {"\"dtype\":\"f32\"", "\"dtype\":\"f8\"", "must be one of: f32, f64, bf16, i32"},
      {"\"access\":\"update\"", "\"access\":\"write\"", "c: the shape asks for another access"},
      {"\"elements\":8", "\"elements\":9", "a holds 32 B, must hold 36"},
      {"\"elements\":8", "\"elements\":4611686018427387904", "at most 2^48"},
      {"\"same_as\":-1", "\"same_as\":1", "a holds 32 B, must hold 0"},
      {"\"same_as\":-1", "\"same_as\":-2", "\"same_as\" is -2"},
      {"\"index\":3", "\"index\":-3", "\"index\" is -3"},
      {"\"step\":1", "\"step\":\"1\"", "\"step\" is \"1\""},
  }));
  CAPTURE(c.from, c.to, c.says);
  const absl::Status status = DecodeCall(WithHeader(c.from, c.to)).status();
  CHECK(absl::IsInvalidArgument(status));
  CAPTURE(status);
  CHECK(status.message().find(c.says) != absl::string_view::npos);
}

TEST_CASE("a tensor lies in the place of an earlier one of its size and dtype, or in its own") {
  CapturedCall call{.args = AddArgs{PlacelessSlice(2), PlacelessSlice(2), PlacelessSlice(2), 2}};
  call.tensors = {{"a", Dtype::kF32, Access::kRead, 2, -1, Bytestring(8)},
                  {"b", Dtype::kF32, Access::kRead, 2, 0, {}},
                  {"c", Dtype::kF32, Access::kWrite, 2, 0, {}}};
  CHECK(CheckCall(call).ok());
  call.tensors[2].same_as = GENERATE(1, 2, 3);  // no place of its own; itself; none
  CAPTURE(call.tensors[2].same_as);
  CHECK(CheckCall(call).message().find("c: same_as is") == 0);
  call.tensors[2].same_as = 0;
  call.tensors[2].elements = 3;
  CHECK(absl::IsInvalidArgument(CheckCall(call)));
}

Bytestring Ids(int32_t first, int32_t second) {
  const int32_t ids[2] = {first, second};
  Bytestring bytes(sizeof(ids));
  std::memcpy(bytes.data(), ids, sizeof(ids));
  return bytes;
}

TEST_CASE("targets outside the table that they index are refused") {
  HeadLossArgs args{.rows = 2, .columns = 3, .vocabulary = 4};
  args.x = args.weight = args.targets = args.loss_sum = PlacelessSlice(0);
  CapturedCall call{.args = args};
  const int32_t target = GENERATE(3, 4, -1);
  CAPTURE(target);
  call.tensors = {{"x", Dtype::kF32, Access::kRead, 6, -1, Bytestring(24)},
                  {"weight", Dtype::kF32, Access::kRead, 12, -1, Bytestring(48)},
                  {"targets", Dtype::kI32, Access::kRead, 2, -1, Ids(3, target)},
                  {"loss_sum", Dtype::kF64, Access::kUpdate, 1, -1, Bytestring(8)}};
  const absl::Status status = CheckCall(call);
  CAPTURE(status);
  CHECK(status.ok() == (target == 3));
  if (!status.ok()) CHECK(status.message().find("must be in [0, 4)") != absl::string_view::npos);
}

TEST_CASE("tokens outside a table that is a part of the vocabulary are taken") {
  EmbeddingForwardArgs args{.batch = 1, .sequence = 2, .columns = 3, .first_token = 8, .vocabulary = 4};
  args.tokens = args.token_embedding = args.y = PlacelessSlice(0);
  CapturedCall call{.args = args};
  call.tensors = {{"tokens", Dtype::kI32, Access::kRead, 2, -1, Ids(9, 12)},
                  {"token_embedding", Dtype::kF32, Access::kRead, 12, -1, Bytestring(48)},
                  {"y", Dtype::kF32, Access::kWrite, 6, -1, {}}};
  CHECK(CheckCall(call).ok());
  CHECK(ShapeOf(call) == "batch=1 sequence=2 columns=3 first_token=8 vocabulary=4");
}

TEST_CASE("where a part begins counts as no size: it does no work") {
  EmbeddingForwardArgs args{.batch = 0, .sequence = 1 << 20, .columns = 1 << 12, .vocabulary = 1 << 16};
  args.first_token = int64_t{1} << 31;
  args.tokens = args.token_embedding = args.y = PlacelessSlice(0);
  CapturedCall call{.args = args};
  call.tensors = {{"tokens", Dtype::kI32, Access::kRead, 0, -1, {}},
                  {"token_embedding", Dtype::kF32, Access::kRead, 0, -1, {}},
                  {"y", Dtype::kF32, Access::kWrite, 0, -1, {}}};
  CHECK(CheckCall(call).ok());
  for (const int64_t first_token : {int64_t{-1}, (int64_t{1} << 48) + 1}) {
    std::get<EmbeddingForwardArgs>(call.args).first_token = first_token;
    CHECK(CheckCall(call).message() ==
          "first_token is " + std::to_string(first_token) + ", must be 0 or more, at most 2^48");
  }
}

TEST_CASE("AdamW's ranges must be ascending and inside its tensors") {
  AdamWArgs args{.step = 1};
  args.parameter = args.gradient = args.m = args.v = PlacelessSlice(0);
  CapturedCall call{.args = args};
  call.ranges = {{.first = 0, .elements = 4}, {.first = 4, .elements = 2}};
  for (const char* name : {"parameter", "gradient", "m", "v"}) {
    call.tensors.push_back({name, Dtype::kF32,
                            std::string(name) == "gradient" ? Access::kRead : Access::kUpdate, 6, -1,
                            Bytestring(24)});
  }
  CHECK(CheckCall(call).ok());
  call.ranges[1].first = 3;
  CHECK(absl::IsInvalidArgument(CheckCall(call)));
  call.ranges[1] = {.first = 5, .elements = 2};
  CHECK(CheckCall(call).message().find("has 6 elements, must have 7") != absl::string_view::npos);
}

TEST_CASE("a result comes back as it was, an error with its code and words") {
  CallResult result{.index = 9};
  result.outputs = {{"c", Dtype::kF32, Bytestring(8, std::byte{5})},
                    {"loss_sum", Dtype::kF64, Bytestring(8)}};
  const absl::StatusOr<CallResult> back = DecodeResult(Joined(EncodeResult(result)));
  REQUIRE(back.ok());
  CHECK(back->index == 9);
  CHECK(back->status.ok());
  REQUIRE(back->outputs.size() == 2);
  CHECK(back->outputs[0].name == "c");
  CHECK(back->outputs[1].dtype == Dtype::kF64);
  CHECK(back->outputs[0].contents == result.outputs[0].contents);

  const CallResult failed{.index = 1, .status = absl::UnimplementedError("no kernel \xff")};
  const absl::StatusOr<CallResult> error = DecodeResult(Joined(EncodeResult(failed)));
  REQUIRE(error.ok());
  CHECK(absl::IsUnimplemented(error->status));
  CHECK(error->status.message().find("no kernel") == 0);

  result.outputs[0].contents.pop_back();
  CHECK(absl::IsInvalidArgument(DecodeResult(Joined(EncodeResult(result))).status()));
}

}  // namespace
}  // namespace medley
