#pragma once
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/device/device.h"
#include "runtime/ir/job/training_spec.h"
#include "runtime/ir/plan/device_room.h"
#include "runtime/ir/plan/plan.h"
#include "runtime/ir/program/memory.h"

// What the ranks of a plan are predicted to take of their devices' memory, and what they take.
namespace medley {

// Opens the device of `rank`, with so much memory.
using LimitedOpener = std::function<absl::StatusOr<Device>(Rank rank, Bytes limit)>;

struct MemoryCase {
  std::string name;
  TrainingSpec spec;  // seed, shape, precision and optimizer count
  Plan plan;          // valid
  LimitedOpener open;
};

struct RankTaken {
  Bytes set_up;    // allocated once the shard is there, before its first pass: all of the model's parts
  Bytes host;      // of host memory, for what lives there
  Bytes peak;      // by the device's allocator, with what the ops hold beside it
  OpHoldings ops;  // at the end
};

// Trains for two steps with all ranks in this process, a thread each, over loopback. `limits` by rank.
// Errors: of the first rank that failed by itself, with its number; ResourceExhausted: it ran out of memory.
absl::StatusOr<std::vector<RankTaken>> RunForMemory(const MemoryCase& of, const std::vector<Bytes>& limits);

struct RankPredicted {
  RankMemory model;
  Bytes workspace, copies;  // beside it, by the device's profile
  Bytes total() const { return model.total() + workspace + copies; }
};

// As a planner predicts it. Of `rooms`, by rank, the limit does not count.
std::vector<RankPredicted> PredictForMemory(const MemoryCase& of, const std::vector<DeviceRoom>& rooms);

}  // namespace medley
