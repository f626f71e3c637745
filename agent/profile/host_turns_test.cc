#include "agent/profile/host_turns.h"

#include <cmath>
#include <random>

#include "catch2/catch.hpp"

namespace medley {
namespace {

TEST_CASE("in each turn one device computes, or all do") {
  const unsigned seed = 7;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int trial = 0; trial < 200; ++trial) {
    const int devices = std::uniform_int_distribution<>(2, 9)(random);
    const double turn_seconds = std::uniform_real_distribution<>(0.05, 3)(random);
    const double begin = std::uniform_real_distribution<>(0, 2e9)(random);
    std::vector<int> alone(devices, 0);
    int together = 0;
    // In the middle of each turn of two rounds.
    const double first = (std::floor(begin / turn_seconds) + 0.5) * turn_seconds;
    for (int t = 0; t < 2 * (devices + 1); ++t) {
      const double now = first + t * turn_seconds;
      int computing = 0;
      for (int place = 0; place < devices; ++place) {
        const Turn turn = TurnAt({turn_seconds, devices, place}, now);
        computing += turn.computes;
        CHECK(turn.end_seconds == Approx(now + turn_seconds / 2).margin(1e-5));
        if (turn.of_all) CHECK(turn.computes);
        if (turn.computes && !turn.of_all) ++alone[place];
        CHECK(TurnAt({turn_seconds, devices, place}, now + turn_seconds * (devices + 1)).round ==
              turn.round + 1);
      }
      CHECK((computing == 1 || computing == devices));
      together += computing == devices;
    }
    CHECK(together == 2);
    for (const int turns : alone) CHECK(turns == 2);
  }
}

TEST_CASE("without turns a device computes all the time") {
  const Turn turn = TurnAt({}, 1e9);
  CHECK(turn.computes);
  CHECK(turn.of_all);
  CHECK(std::isinf(turn.end_seconds));
}

}  // namespace
}  // namespace medley
