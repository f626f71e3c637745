#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/engine/checkpoint/checkpoint.h"
#include "runtime/engine/shard/parameter_arena.h"
#include "runtime/ir/job/training_spec.h"
#include "runtime/ir/plan/plan.h"

// Trains parts of a job as workers do, all ranks in this process, each part until something interrupts it.
namespace medley {

// How a launch ends before the job's last step.
struct Interruption {
  enum class Kind {
    kNone,
    kDeath,  // of all ranks at once, when `rank` is at its `operation`-th message or window after the step
    kWish,   // to finish with a checkpoint
  };
  Kind kind = Kind::kNone;
  int64_t after_step = 0;
  int rank = 0;
  int operation = 1;
};
std::string Describe(const Interruption& interruption);

// What a job trains, by tensor: parameters, and AdamW's moments.
struct State {
  std::map<std::string, std::vector<float>>& of(ParameterArena::Part part) {
    return part == ParameterArena::Part::kFirstMoment    ? m
           : part == ParameterArena::Part::kSecondMoment ? v
                                                         : parameters;
  }
  std::map<std::string, std::vector<float>> parameters, m, v;
};

absl::StatusOr<State> StateOf(const CheckpointManifest& manifest);

// Part of a job, by ranks that begin and end together.
struct Launch {
  Plan plan;
  uint64_t number = 1;                     // of the job
  std::optional<CheckpointManifest> from;  // none: from the start
  std::optional<LossScale> loss_scale;     // of the job's start; none: its precision's
  std::string copies;                      // where what it begins from is saved again
  Interruption interruption;
};

struct Outcome {
  std::map<int64_t, double> losses, validations;  // as rank 0 tells
  std::map<int64_t, int64_t> loss_scales;
  std::vector<int64_t> checkpoints;    // that rank 0 said to be complete
  std::vector<absl::Status> statuses;  // by rank
  bool died = false;
  State state;  // if all ranks came to its end
};

// Who the folder of checkpoints belongs to in a launch.
RunOwner OwnerOf(uint64_t launch);

// Trains in devices of two kinds, alternately. An error of a rank is its status in the outcome.
Outcome Run(const TrainingSpec& spec, const Launch& launch);

}  // namespace medley
