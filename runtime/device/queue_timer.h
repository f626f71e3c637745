#pragma once
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace medley {

// Marks on a queue's timeline whose times can be read, on the device's own clock, so that nobody has to wait
// for work in order to know how long it took. Marks have numbers from 0 and may be set again and again. Must
// not outlive its queue.
class QueueTimer {
 public:
  virtual ~QueueTimer() = default;

  // Puts mark `index` behind all that was submitted to the queue so far. Of the submitting thread. Errors:
  // the queue's.
  virtual absl::Status Set(int index) = 0;

  // Seconds from mark `from` to mark `to`, negative if `to` came first. Both must have been set, and a fence
  // that was recorded after them waited for. Any thread. Errors: the driver's words.
  virtual absl::StatusOr<double> Seconds(int from, int to) = 0;
};

}  // namespace medley
