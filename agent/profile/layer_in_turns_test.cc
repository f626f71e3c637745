#include "agent/profile/layer_in_turns.h"

#include <catch2/catch.hpp>

#include "agent/profile/device_of_known_times.h"

namespace medley {
namespace {

TEST_CASE("a layer beside others is timed in the middle of the time, at least once") {
  Device device = Emulated(GiB(16));
  for (const double seconds : {0.0, 0.2}) {
    const auto times = TimeLayerInTurns(device, Shape(), Precision::kF32, 2, seconds, {});
    REQUIRE(times.ok());
    CHECK(times->layer.forward_seconds >= 0.99 * 2 * kForward);
    CHECK(times->layer.backward_seconds >= 0.99 * 2 * kBackward);
    CHECK(times->pass_ratios.empty());
  }
  Device tiny = Emulated(KiB(64));
  CHECK(absl::IsResourceExhausted(TimeLayerInTurns(tiny, Shape(), Precision::kF32, 2, 0, {}).status()));
}

TEST_CASE("in turns a layer's time is that of its own turns, and each round says what company costs") {
  Device device = Emulated(GiB(16));
  // A repetition takes 20 ms or, on a busy machine, more.
  const auto times = TimeLayerInTurns(device, Shape(), Precision::kF32, 2, 3, {0.1, 2, 1});
  REQUIRE(times.ok());
  CHECK(times->layer.forward_seconds >= 0.99 * 2 * kForward);
  CHECK(times->pass_ratios.size() <= 7);
  for (const double ratio : times->pass_ratios) CHECK(ratio > 0);
  // No repetition ends within its turn: one counts all the same, and nothing is said of company.
  const auto short_turns = TimeLayerInTurns(device, Shape(), Precision::kF32, 2, 0.1, {0.001, 2, 1});
  REQUIRE(short_turns.ok());
  CHECK(short_turns->layer.forward_seconds >= 0.99 * 2 * kForward);
  CHECK(short_turns->pass_ratios.empty());
}

}  // namespace
}  // namespace medley
