#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/engine/exec/window_source.h"
#include "runtime/ir/job/training_spec.h"

namespace medley {

// What an alignment trains, as the command line has it.
struct AlignJobOptions {
  std::string model;  // a directory of Hugging Face, or a job spec (YAML)
  std::string data;   // tokens; empty: the job's, and with a directory made-up ones
  int64_t steps = 3;
  std::optional<Precision> precision;  // unset: the job's, and with a directory f32
  int micro_batch = 1;                 // windows; a step is two micro-batches, so that gradients are added up
  int sequence = 0;                    // tokens in a window; 0: the job's or the model's, at most 128
};

struct AlignJob {
  // The job with the batch cut down to two micro-batches, without validation and checkpoints. Its steps are
  // those of the learning rate's schedule, not fewer than `steps`.
  TrainingSpec spec;
  int64_t steps = 0;
  int micro_batch = 0;
};

// InvalidArgument: an option, the model or the job spec is wrong; the message names which, its value and what
// is allowed.
absl::StatusOr<AlignJob> MakeAlignJob(const AlignJobOptions& options);

// The job's windows; without a training file a noisy counter through the vocabulary, the same on every
// device.
// Errors: those of FileWindowSource::Open.
absl::StatusOr<std::unique_ptr<WindowSource>> OpenAlignWindows(const AlignJob& job);

}  // namespace medley
