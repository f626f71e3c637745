#include "tests/conformance/arena.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <iostream>
#include <limits>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/narrow.h"
#include "tests/conformance/device_under_test.h"

namespace medley {
namespace {

constexpr int64_t kGuardBytes = 72;  // a multiple of 8, not of 16
constexpr std::byte kGuard{0xa5};

}  // namespace

Values RandomValues(std::mt19937_64& random, int64_t count, float deviation) {
  std::normal_distribution<float> normal(0.0f, deviation);
  Values values(count);
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<int32_t> RandomIntegers(std::mt19937_64& random, int64_t count, int64_t end) {
  std::uniform_int_distribution<int32_t> uniform(0, static_cast<int32_t>(end - 1));
  std::vector<int32_t> values(count);
  for (int32_t& value : values) value = uniform(random);
  return values;
}

Arena::Arena(Device& device)
    : device_(device), device_name_(&device == &ReferenceDevice() ? "reference" : DeviceUnderTestName()) {}

void Arena::RequireOk(const absl::Status& status) {
  INFO(status.ToString());
  REQUIRE(status.ok());
}

void Arena::Judge(OpKind op, const void* args, const absl::Status& status,
                  const CandidateOps::Choice& choice) {
  const auto find = [&](ExemptionKind kind) {
    return FindExemption(Exemptions(), device_name_, kind, op, args);
  };
  const bool fell_back = choice.chosen != nullptr && !choice.objections.empty() &&
                         absl::StartsWith(choice.chosen->name, "reference");
  const Judgement judgement = JudgeCall(find(ExemptionKind::kUnsupported), op, status,
                                        fell_back ? RunBy::kFallback : RunBy::kOwnKernels);
  CAPTURE(choice.objections);
  if (judgement.verdict == Verdict::kWrong) FAIL(judgement.words);
  if (judgement.verdict == Verdict::kDeclined) {
    static std::set<std::string>& said = *new std::set<std::string>;
    if (said.insert(judgement.words).second) std::cout << "notice: " << judgement.words << std::endl;
    throw Declined();
  }
  if (const Exemption* expected = find(ExemptionKind::kExpectedFailure)) expected_failure_ = expected;
}

Slice Arena::Place(const void* data, int64_t count, Dtype dtype) {
  const int64_t bytes = count * SizeOf(dtype).value;
  std::vector<std::byte> image(bytes + 2 * kGuardBytes, kGuard);
  if (bytes > 0) std::memcpy(image.data() + kGuardBytes, data, bytes);
  auto buffer = device_.queue->Allocate({static_cast<int64_t>(image.size())});
  REQUIRE(buffer.ok());
  REQUIRE(device_.queue->Upload(image, **buffer, {0}).ok());
  buffers_.push_back(*std::move(buffer));
  return {buffers_.back().get(), kGuardBytes, count, dtype};
}

Slice Arena::Input(const Values& values, Dtype dtype) {
  if (dtype == Dtype::kF32) return Place(values.data(), values.size(), dtype);
  std::vector<uint16_t> narrow(values.size());
  std::transform(values.begin(), values.end(), narrow.begin(),
                 [&](float value) { return ToNarrow(value, dtype); });
  return Input(narrow, dtype);
}
Slice Arena::Input(const std::vector<int32_t>& values) {
  return Place(values.data(), values.size(), Dtype::kI32);
}
Slice Arena::Input(const std::vector<uint16_t>& narrow, Dtype dtype) {
  return Place(narrow.data(), narrow.size(), dtype);
}
Slice Arena::Output(int64_t count, Dtype dtype) {
  const std::vector<std::byte> nan(count * SizeOf(dtype).value, std::byte{0xff});
  return Place(nan.data(), count, dtype);
}
Slice Arena::Scalar(double value) { return Place(&value, 1, Dtype::kF64); }

void Arena::Download(const Slice& from, void* to, int64_t bytes) {
  const absl::Span<std::byte> host(static_cast<std::byte*>(to), bytes);
  REQUIRE(device_.queue->Download(*from.buffer, {from.offset_bytes}, host).ok());
  const absl::Status done = device_.queue->Wait(device_.queue->Record());
  if (!done.ok()) FAIL(done);
}

Values Arena::Read(const Slice& slice) {
  Values values(slice.elements);
  if (slice.dtype == Dtype::kBf16 || slice.dtype == Dtype::kF16) {
    std::vector<uint16_t> narrow(slice.elements);
    Download(slice, narrow.data(), slice.elements * SizeOf(slice.dtype).value);
    std::transform(narrow.begin(), narrow.end(), values.begin(),
                   [&](uint16_t bits) { return FromNarrow(bits, slice.dtype); });
    return values;
  }
  Download(slice, values.data(), slice.elements * 4);
  return values;
}

double Arena::ReadScalar(const Slice& slice) {
  double value = 0;
  Download(slice, &value, 8);
  return value;
}

Values Arena::ReadBytes(const Slice& slice, Dtype dtype) {
  std::vector<uint8_t> bytes(slice.elements * SizeOf(dtype).value);
  Download(slice, bytes.data(), bytes.size());
  return Values(bytes.begin(), bytes.end());
}

void Arena::Check() {
  for (size_t i = 0; i < buffers_.size(); ++i) {
    std::vector<std::byte> image(buffers_[i]->size().value);
    Download({buffers_[i].get(), 0, 0}, image.data(), image.size());
    int64_t harmed = 0;
    for (int64_t b = 0; b < kGuardBytes; ++b) {
      harmed += image[b] != kGuard;
      harmed += image[image.size() - 1 - b] != kGuard;
    }
    CAPTURE(i);
    CHECK(harmed == 0);
  }
}

std::string Mismatch(const std::string& name, const Values& got, const Values& want, double tolerance) {
  if (got.size() != want.size()) {
    return absl::StrCat(name, " has ", got.size(), " elements, want ", want.size());
  }
  double largest = 0;
  for (float value : want) largest = std::max(largest, std::abs(static_cast<double>(value)));
  size_t worst = 0, wrong = 0;
  double worst_ratio = -1;
  for (size_t i = 0; i < want.size(); ++i) {
    const double allowed = tolerance * (std::abs(static_cast<double>(want[i])) + largest);
    const double error = std::abs(static_cast<double>(got[i]) - want[i]);
    if (error <= allowed || (tolerance > 0 && error < kNothing)) continue;  // false for NaN
    ++wrong;
    const double ratio =
        std::isnan(error) ? std::numeric_limits<double>::infinity() : error / std::max(allowed, 1e-300);
    if (ratio > worst_ratio) {
      worst_ratio = ratio;
      worst = i;
    }
  }
  if (wrong == 0) return "";
  return absl::StrCat(name, ": ", wrong, " of ", want.size(), " elements are wrong by a tolerance of ",
                      tolerance, "; worst at ", worst, ": got ", got[worst], ", want ", want[worst], ", ",
                      worst_ratio, " times what is allowed");
}

void CheckClose(const std::string& name, const Values& got, const Values& want, double tolerance) {
  const std::string mismatch = Mismatch(name, got, want, tolerance);
  if (mismatch.empty()) {
    SUCCEED();
  } else {
    FAIL_CHECK(mismatch);
  }
}

void OnDeviceUnderTest(const std::function<void(Arena&)>& work) {
  Device* device = DeviceUnderTest();
  if (device == nullptr) return;
  device->ops->ParametersChanged();
  Arena arena(*device);
  try {
    work(arena);
  } catch (const Declined&) {
  }
  arena.Check();
}

void CompareWithReference(const std::function<std::vector<Result>(Arena&)>& work, Precision precision) {
  Arena reference(ReferenceDevice());
  const std::vector<Result> want = work(reference);
  reference.Check();
  std::vector<Result> first;
  for (const int run : {1, 2}) {
    CAPTURE(run);
    OnDeviceUnderTest([&](Arena& arena) {
      std::vector<Result> got = work(arena);
      REQUIRE(got.size() == want.size());
      std::vector<std::string> mismatches;
      for (size_t i = 0; i < want.size(); ++i) {
        const double tolerance =
            ToleranceOf(want[i].arithmetic, precision) + RoundingOf(want[i].arithmetic, want[i].dtype);
        std::string mismatch = Mismatch(want[i].name, got[i].values, want[i].values, tolerance);
        if (!mismatch.empty()) mismatches.push_back(std::move(mismatch));
        if (run == 2 && !got[i].values.empty() &&
            std::memcmp(got[i].values.data(), first[i].values.data(), got[i].values.size() * 4) != 0) {
          mismatches.push_back(want[i].name + " is not the same to the bit as at the first run");
        }
      }
      const std::string words = JudgeResults(arena.expected_failure(), mismatches);
      if (!words.empty()) FAIL_CHECK(words);
      first = std::move(got);
    });
  }
  SUCCEED();
}

}  // namespace medley
