#pragma once
#include <cstdint>
#include <functional>

#include "runtime/device/copy_lane.h"
#include "runtime/device/ops.h"

namespace medley {

// For the tests of queues: programs of copies and ops on a queue and its lanes, against a model on the host.
struct LaneProgram {
  DeviceQueue& queue;
  // Submits y = x + y, elements of f32 alike in number.
  std::function<absl::Status(const Slice& x, const Slice& y)> add;
  uint64_t seed = 0;
  int actions = 120;
  int64_t elements = 64;  // of each buffer
};

// Uploads, downloads and adds in a random order on the queue and on two lanes, ordered by fences where they
// touch the same buffer and nowhere else, from one thread. Internal: something arrived that is not what the
// order asks for.
absl::Status RunOrderedByFences(const LaneProgram& program);

// Two lanes, each with a thread of its own, copy both ways while this thread keeps the queue at adding.
// Internal as above.
absl::Status RunAllAtOnce(const LaneProgram& program);

}  // namespace medley
