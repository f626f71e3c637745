#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "proto/medley/v1/agent.pb.h"

namespace medley {

// What a task's worker said, numbered from 1, for a coordinator that may be away for hours and asks again
// from where it was. Bounded: of each kind of event the newest stay, and the last event, `finished`, always
// does. Where lines did not stay a line says so. Not thread-safe.
class EventLog {
 public:
  // How many of each kind stay.
  struct Limits {
    size_t lines = 2'000;     // that the worker logged
    size_t measured = 32;     // times of instructions, which are large
    size_t others = 200'000;  // steps and the like
  };
  EventLog() : EventLog(Limits()) {}
  explicit EventLog(const Limits& limits) : limits_{limits.lines, limits.measured, limits.others} {}

  // Gives `event` its number.
  void Add(v1::WorkerEvent event);

  // At most `limit` events after number `after`, ascending.
  std::vector<v1::WorkerEvent> After(uint64_t after, size_t limit) const;

  uint64_t newest() const { return newest_; }

 private:
  std::array<size_t, 3> limits_;
  std::array<std::deque<uint64_t>, 3> numbers_;  // of each kind, ascending
  std::map<uint64_t, v1::WorkerEvent> events_;
  uint64_t dropped_line_ = 0;  // number of the newest line that did not stay; 0: none
  uint64_t newest_ = 0;
};

}  // namespace medley
