#include "runtime/engine/align/align_directory.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "runtime/base/files/temporary_directory.h"

namespace medley {
namespace {

CapturedCall FillCall(int64_t index) {
  CapturedCall call{.place = {.index = index, .step = 1}, .args = FillArgs{PlacelessSlice(2), 2, 1.0f}};
  call.tensors = {{"x", Dtype::kF32, Access::kWrite, 2, -1, {}}};
  return call;
}

CallResult ResultOf(int64_t index, std::byte byte) {
  return {.index = index, .outputs = {{"x", Dtype::kF32, std::vector<std::byte>(8, byte)}}};
}

TEST_CASE("calls are listed in program order, whatever else lies there") {
  const TemporaryDirectory temporary;
  const AlignDirectory directory(temporary.path());
  REQUIRE(directory.Create().ok());
  for (const int64_t index : {12, 3, 100000}) REQUIRE(directory.WriteCall(FillCall(index)).ok());
  temporary.Write("calls/notes.txt", "not a call");
  temporary.Write("calls/000000007.call.partial-1", "not whole");
  const auto calls = directory.Calls();
  REQUIRE(calls.ok());
  CHECK(*calls == std::vector<int64_t>{3, 12, 100000});
  CHECK(directory.ReadCall(12)->place.index == 12);
  CHECK(absl::IsNotFound(directory.ReadCall(13).status()));
}

TEST_CASE("a damaged file is refused with its path") {
  const TemporaryDirectory temporary;
  const AlignDirectory directory(temporary.path());
  REQUIRE(directory.Create().ok());
  temporary.Write("calls/000000001.call", "MEDLEYOP, and nothing else that fits");
  const absl::Status status = directory.ReadCall(1).status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK(status.message().find("calls/000000001.call") != absl::string_view::npos);
  CHECK_FALSE(directory.Compare(Precision::kF32, Precision::kF32).ok());
}

TEST_CASE("a missing result is its party's failure, and the comparison goes on") {
  const TemporaryDirectory temporary;
  const AlignDirectory directory(temporary.path());
  REQUIRE(directory.Create().ok());
  for (const int64_t index : {1, 2}) {
    REQUIRE(directory.WriteCall(FillCall(index)).ok());
    REQUIRE(directory.WriteResult(Party::kA, ResultOf(index, std::byte{1})).ok());
    REQUIRE(directory.WriteResult(Party::kOracle, ResultOf(index, std::byte{1})).ok());
  }
  REQUIRE(directory.WriteResult(Party::kB, ResultOf(1, std::byte{1})).ok());
  const auto alignment = directory.Compare(Precision::kF32, Precision::kF32);
  REQUIRE(alignment.ok());
  CHECK(alignment->calls() == 2);
  REQUIRE(alignment->details().size() == 1);
  CHECK(alignment->details()[0].place.index == 2);
  CHECK(alignment->details()[0].failed(Party::kB));
}

TEST_CASE("a device's record comes back as it was") {
  const TemporaryDirectory temporary;
  const AlignDirectory directory(temporary.path());
  REQUIRE(directory.Create().ok());
  DeviceRecord record{.device = "cpu:avx2/1", .name = "cpu-avx2 (1 core)", .computes_in = Precision::kBf16};
  record.losses = {5.5450000000000017, 1e-300};
  record.capture = {.calls = 9,
                    .captured = 4,
                    .captured_bytes = {77},
                    .shortened = 1,
                    .repeats = 2,
                    .over_calls_of_a_shape = 3,
                    .over_one_call = 4,
                    .over_steps = 5,
                    .impossible = 6};
  record.training = absl::InvalidArgumentError("step 3: the loss is not finite");
  REQUIRE(directory.WriteRecord(Party::kB, record).ok());
  const auto back = directory.ReadRecord(Party::kB);
  REQUIRE(back.ok());
  CHECK(back->device == record.device);
  CHECK(back->name == record.name);
  CHECK(back->computes_in == Precision::kBf16);
  CHECK(back->losses == record.losses);
  CHECK(back->status.ok());
  CHECK(back->training == record.training);
  CHECK(EncodeDeviceRecord(*back) == EncodeDeviceRecord(record));
  CHECK(absl::IsNotFound(directory.ReadRecord(Party::kA).status()));
}

TEST_CASE("a record that lies is refused with the member and what is allowed") {
  const std::string good = EncodeDeviceRecord({.device = "reference", .losses = {1}});
  REQUIRE(DecodeDeviceRecord(good).ok());
  struct Case {
    std::string from, to, says;
  };
  const auto c = GENERATE(values<Case>({{"\"f32\"", "\"f64\"", "must be f32, bf16 or f16"},
                                        {"[1.0]", "[\"1\"]", "\"losses\" has"},
                                        {"[1.0]", "{}", "\"losses\" is no list"},
                                        {"\"repeats\":0", "\"repeats\":-1", "\"repeats\" is -1"},
                                        {"\"code\":0", "\"code\":17", "\"code\" is 17"},
                                        {"\"device\"", "\"devise\"", "\"device\" is missing"},
                                        {"}\n", "", "not JSON"}}));
  CAPTURE(c.from, c.to);
  std::string text = good;
  text.replace(text.find(c.from), c.from.size(), c.to);
  const absl::Status status = DecodeDeviceRecord(text).status();
  CAPTURE(status);
  CHECK(absl::IsInvalidArgument(status));
  CHECK(status.message().find(c.says) != absl::string_view::npos);
}

}  // namespace
}  // namespace medley
