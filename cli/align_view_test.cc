#include "cli/align_view.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

namespace medley {
namespace {

CallComparison Compared(int64_t index, const std::vector<float>& a, const std::vector<float>& b) {
  MatmulArgs args{.m = 1, .n = 2, .k = 1};
  args.a = args.b = args.c = PlacelessSlice(2);
  const CapturedCall call{.place = {.index = index, .step = 2, .position = "h.3.mlp.c_fc.weight"},
                          .args = args};
  const auto result = [&](const std::vector<float>& values) {
    CallResult made{.index = index,
                    .outputs = {{"c", Dtype::kF32, std::vector<std::byte>(values.size() * 4)}}};
    std::memcpy(made.outputs[0].contents.data(), values.data(), values.size() * 4);
    return made;
  };
  return CompareCall(call, {result(a), result(b), result({1, 2})}, Precision::kF32, Precision::kF32);
}

AlignmentReport Report() {
  AlignmentReport report;
  report.records[0] = {.device = "cpu:avx2", .name = "cpu-avx2 (2 cores)", .losses = {5, 4}};
  report.records[0].capture = {.calls = 40,
                               .captured = 2,
                               .captured_bytes = {2048},
                               .shortened = 1,
                               .repeats = 30,
                               .over_calls_of_a_shape = 8};
  report.records[1] = {.device = "cuda", .name = "an accelerator", .losses = {5, 4}};
  report.records[2] = {.device = "reference", .name = "reference"};
  report.losses = *CompareLosses({5, 4}, {5, 4}, Precision::kF32, Precision::kF32);
  return report;
}

bool Contains(const std::string& text, const std::string& part) {
  CAPTURE(text, part);
  return text.find(part) != std::string::npos;
}

TEST_CASE("devices that agree are said to be aligned, with how much was compared and what was not") {
  AlignmentReport report = Report();
  report.alignment.Add(Compared(0, {1, 2}, {1, 2}));
  CHECK(IsAligned(report));
  const std::string text = FormatAlignment(report);
  CHECK(text.find("cpu:avx2 and cuda are aligned: 1 op calls and 2 losses are within what is allowed\n") ==
        0);
  CHECK(Contains(
      text,
      "Captured 2 of 40 op calls, 2.0 KiB; left out: 30 repeats in later micro-batches, 8 beyond the "
      "calls of one shape in a step (--calls-per-shape); 1 of the captured ones"));
  CHECK(Contains(text, "A  cpu:avx2: cpu-avx2 (2 cores), computes in f32\n"));
}

TEST_CASE("the verdict names the first op that parts, its place, and who is off") {
  AlignmentReport report = Report();
  report.alignment.Add(Compared(7, {1, 2}, {1, 2}));
  report.alignment.Add(Compared(9, {1, 2}, {1, 2.5f}));
  report.alignment.Add(Compared(11, {0, 2}, {1, 2}));
  CHECK_FALSE(IsAligned(report));
  CHECK(Verdict(report) ==
        "cpu:avx2 and cuda part first at step 2, op call 9 (h.3.mlp.c_fc.weight), Matmul m=1 n=2 k=1: cuda "
        "is off the "
        "reference, cpu:avx2 is not");
  const std::string text = FormatAlignment(report);
  CHECK(Contains(
      text,
      "B to the reference: c differs by up to 0.5, 1 of 2 elements by more than is allowed; worst is "
      "element 1, 6.25e+04 times that: 2.5 instead of 2\n"));
  CHECK(Contains(text, "op call 11"));
}

TEST_CASE("a device that dies, does not train, or trains apart is not aligned, and the verdict says which") {
  AlignmentReport report = Report();
  CHECK(Verdict(report) == "no op call was captured: nothing was compared");
  CHECK_FALSE(IsAligned(report));
  report.alignment.Add(Compared(0, {1, 2}, {1, 2}));
  AlignmentReport apart = report;
  apart.losses = *CompareLosses({5, 4}, {5, 4.5}, Precision::kF32, Precision::kF32);
  CHECK_FALSE(IsAligned(apart));
  CHECK(Contains(Verdict(apart), "their losses part at step 2"));
  AlignmentReport dead = report;
  dead.records[1].training = absl::UnavailableError("was killed by signal 9\x1b[31m");
  CHECK_FALSE(IsAligned(dead));
  CHECK(Verdict(dead) == "cuda did not train to the end: was killed by signal 9\\x1b[31m");
  const CallResult good{.index = 1}, bad{.index = 1, .status = absl::UnimplementedError("no kernel")};
  MatmulArgs args;
  report.alignment.Add(CompareCall({.place = {.index = 1, .step = 1}, .args = args}, {good, bad, good},
                                   Precision::kF32, Precision::kF32));
  CHECK(Contains(Verdict(report), "Matmul m=0 n=0 k=0: cuda could not run it: no kernel"));
}

TEST_CASE("one device twice is told apart") {
  AlignmentReport report = Report();
  report.records[1].device = report.records[0].device;
  report.alignment.Add(Compared(0, {1, 2}, {1, 2}));
  CHECK(Verdict(report).find("cpu:avx2 (A) and cpu:avx2 (B) are aligned") == 0);
}

TEST_CASE("the JSON has the same figures, and texts where JSON has no numbers") {
  AlignmentReport report = Report();
  report.alignment.Add(Compared(9, {1, 2}, {1, std::numeric_limits<float>::quiet_NaN()}));
  const std::string text = AlignmentJson(report);
  CHECK(text.find('\n') == text.size() - 1);
  const nlohmann::json json = nlohmann::json::parse(text);
  CHECK(json["aligned"] == false);
  CHECK(json["verdict"] == Verdict(report));
  CHECK(json["a"]["losses"] == std::vector<double>{5, 4});
  CHECK(json["capture"]["left_out"]["repeats"] == 30);
  CHECK(json["calls_parted"] == 1);
  CHECK(json["parted"][0]["index"] == 9);
  CHECK(json["parted"][0]["outputs"][0]["b_to_reference"]["worst_got"] == "nan");
  CHECK(json["parted"][0]["outputs"][0]["b_to_reference"]["of_allowed"] == "inf");
  CHECK(json["parted"][0]["outputs"][0]["a_to_reference"]["of_allowed"] == 0.0);
  CHECK(json["ops"][0]["op"] == "Matmul");
  CHECK(json["ops"][0]["b_to_a"]["cosine"] == 1.0);
}

}  // namespace
}  // namespace medley
