#include "agent/profile/host_turns.h"

#include <cmath>
#include <limits>

namespace medley {

Turn TurnAt(const HostTurns& turns, double seconds) {
  if (turns.turn_seconds <= 0) return {0, true, true, std::numeric_limits<double>::infinity()};
  const double number = std::floor(seconds / turns.turn_seconds);
  const int64_t in_round = turns.devices + 1;
  const int64_t whole = static_cast<int64_t>(number);
  const int64_t place = whole % in_round;
  return {.round = whole / in_round,
          .computes = place == turns.place || place == turns.devices,
          .of_all = place == turns.devices,
          .end_seconds = (number + 1) * turns.turn_seconds};
}

}  // namespace medley
