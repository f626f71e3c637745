#pragma once
#include <cstdint>

namespace medley {

// Time is cut into turns by the clock that the devices of a host have in common: in a round each computes alone once, and
// all do in the last turn. Nobody needs to hear from the others.
struct HostTurns {
  double turn_seconds = 0;  // 0: no turns, all compute all the time
  int devices = 0;          // that take turns
  int place = 0;            // of this one, below `devices`
};

struct Turn {
  int64_t round = 0;
  bool computes = false;  // this device does
  bool of_all = false;
  double end_seconds = 0;
};

// The turn at `seconds` (unix), at least 0. Without turns it is a turn of all without an end. Pure.
Turn TurnAt(const HostTurns& turns, double seconds);

}  // namespace medley
