#include "tests/conformance/arena.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

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

Slice Arena::Place(const void* data, int64_t count, int64_t element_bytes) {
  const int64_t bytes = count * element_bytes;
  std::vector<std::byte> image(bytes + 2 * kGuardBytes, kGuard);
  if (bytes > 0) std::memcpy(image.data() + kGuardBytes, data, bytes);
  auto buffer = device_.queue->Allocate({static_cast<int64_t>(image.size())});
  REQUIRE(buffer.ok());
  REQUIRE(device_.queue->Upload(image, **buffer, {0}).ok());
  buffers_.push_back(*std::move(buffer));
  slices_.push_back({buffers_.back().get(), kGuardBytes, count});
  element_bytes_.push_back(element_bytes);
  return slices_.back();
}

Slice Arena::Input(const Values& values) { return Place(values.data(), values.size(), 4); }
Slice Arena::Input(const std::vector<int32_t>& values) { return Place(values.data(), values.size(), 4); }
Slice Arena::Output(int64_t count) { return Input(Values(count, std::numeric_limits<float>::quiet_NaN())); }
Slice Arena::Scalar(double value) { return Place(&value, 1, 8); }

Values Arena::Read(const Slice& slice) {
  Values values(slice.elements);
  REQUIRE(device_.queue
              ->Download(*slice.buffer, {slice.offset_bytes},
                         {reinterpret_cast<std::byte*>(values.data()), values.size() * 4})
              .ok());
  REQUIRE(device_.queue->Wait(device_.queue->Record()).ok());
  return values;
}

double Arena::ReadScalar(const Slice& slice) {
  double value = 0;
  REQUIRE(
      device_.queue->Download(*slice.buffer, {slice.offset_bytes}, {reinterpret_cast<std::byte*>(&value), 8})
          .ok());
  REQUIRE(device_.queue->Wait(device_.queue->Record()).ok());
  return value;
}

void Arena::Check() {
  for (size_t i = 0; i < slices_.size(); ++i) {
    std::vector<std::byte> image(slices_[i].buffer->size().value);
    REQUIRE(device_.queue->Download(*slices_[i].buffer, {0}, absl::MakeSpan(image)).ok());
    REQUIRE(device_.queue->Wait(device_.queue->Record()).ok());
    int64_t harmed = 0;
    for (int64_t b = 0; b < kGuardBytes; ++b) {
      harmed += image[b] != kGuard;
      harmed += image[image.size() - 1 - b] != kGuard;
    }
    CAPTURE(i);
    CHECK(harmed == 0);
  }
}

void CheckClose(const std::string& name, const Values& got, const Values& want, double tolerance) {
  CAPTURE(name, tolerance);
  REQUIRE(got.size() == want.size());
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
  if (wrong > 0) {
    FAIL_CHECK(name << ": " << wrong << " of " << want.size() << " elements are wrong; worst at " << worst
                    << ": got " << got[worst] << ", want " << want[worst] << ", " << worst_ratio
                    << " times what is allowed");
  } else {
    SUCCEED();
  }
}

void CompareWithReference(const std::function<std::vector<Result>(Arena&)>& work, Precision precision) {
  Arena reference(ReferenceDevice());
  const std::vector<Result> want = work(reference);
  reference.Check();
  Device* device = DeviceUnderTest();
  if (device == nullptr) return;
  std::vector<Result> first;
  for (const int run : {1, 2}) {
    CAPTURE(run);
    device->ops->ParametersChanged();
    Arena arena(*device);
    std::vector<Result> got = work(arena);
    arena.Check();
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      CheckClose(want[i].name, got[i].values, want[i].values, ToleranceOf(want[i].arithmetic, precision));
      if (run == 2 && !got[i].values.empty()) {
        CHECK(std::memcmp(got[i].values.data(), first[i].values.data(), got[i].values.size() * 4) == 0);
      }
    }
    first = std::move(got);
  }
}

}  // namespace medley
