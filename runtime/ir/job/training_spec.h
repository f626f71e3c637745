#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/dtype.h"
#include "runtime/ir/collective/collective_schedule.h"
#include "runtime/ir/job/data_choice.h"
#include "runtime/ir/link/device_memory_strategy.h"
#include "runtime/ir/link/message_protection.h"
#include "runtime/ir/model/model_config.h"

// What a job trains, in domain terms: checked, defaults filled in. Nothing in it depends on a plan.
namespace medley {

enum class Decay : uint8_t { kCosine, kLinear, kConstant };

struct OptimizerSettings {
  double learning_rate = 6e-4;
  double minimum_learning_rate = 6e-5;
  int warmup_steps = 0;
  Decay decay = Decay::kCosine;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1;
  double clip_norm = 1.0;   // 0: no clipping
  int skip_non_finite = 0;  // steps in a row that may update nothing because loss or gradient is not finite
};

// The learning rate of step `step` (from 1) of `steps`: linear warm-up lr * step / warmup_steps; then, with
// p = (step - warmup_steps) / (steps - warmup_steps), cosine: min + (lr - min) (1 + cos(pi p)) / 2,
// linear: lr + (min - lr) p, constant: lr.
double LearningRateAt(const OptimizerSettings& optimizer, int64_t step, int64_t steps);

// What a job forces of what is otherwise chosen.
struct CommunicationSettings {
  std::optional<CollectiveAlgorithm> all_reduce;  // of gradients; none: by the links
  Precision gradient_wire = Precision::kF32;      // gradients are sent as; summed in f32
  DeviceMemoryStrategy device_memory = DeviceMemoryStrategy::kAutomatic;
  MessageProtection message_protection = MessageProtection::kNone;  // between hosts
};

struct TrainingSpec {
  std::string job_name;
  TrainingShape shape;
  std::string hugging_face_directory;       // empty: initialise from the seed
  std::string train_file, validation_file;  // validation empty: none
  TokenFormat data_format = TokenFormat::kAutomatic;
  DataOrder data_order = DataOrder::kSequential;
  int64_t steps = 0;
  OptimizerSettings optimizer;
  Precision precision = Precision::kF32;
  uint64_t seed = 0;
  std::string checkpoint_directory;  // of this job; empty: no checkpoints
  int64_t checkpoint_every_steps = 100;
  int checkpoint_keep = 2;
  // A checkpoint's directory that the first launch begins from; empty: from the start.
  std::string resume_from;
  int64_t validate_every_steps = 0;  // 0: never
  int validation_batches = 1;
  int max_restarts = 3;
  CommunicationSettings communication;
  bool allow_emulated = false;  // a rehearsal: may run on devices that compute nothing
};

}  // namespace medley
