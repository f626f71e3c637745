#include "agent/worker/align_job.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/checkpoint/hugging_face.h"
#include "runtime/engine/exec/file_window_source.h"
#include "runtime/engine/exec/made_up_windows.h"
#include "runtime/wire/job_codec.h"
#include "runtime/wire/yaml_message.h"

namespace medley {
namespace {

constexpr int kDefaultSequence = 128;
constexpr int kMicroBatches = 2;

absl::StatusOr<TrainingSpec> SpecOfDirectory(const std::string& directory) {
  TrainingSpec spec{.job_name = "align", .hugging_face_directory = directory};
  ASSIGN_OR_RETURN(spec.shape.model, ReadModelConfig(directory));
  spec.shape.sequence = spec.shape.model.context;
  spec.optimizer.decay = Decay::kConstant;
  return spec;
}

absl::StatusOr<TrainingSpec> SpecOfJob(const std::string& file) {
  v1::JobSpec job;
  RETURN_IF_ERROR(ReadYamlFile(file, &job));
  std::optional<ModelConfig> config;
  if (!job.model().hugging_face().empty()) {
    ASSIGN_OR_RETURN(config, ReadModelConfig(job.model().hugging_face()));
  }
  ASSIGN_OR_RETURN(TrainingSpec spec, DecodeJobSpec(job, "", config));
  spec.validation_file.clear();
  spec.checkpoint_directory.clear();
  return spec;
}

absl::Status CheckRange(const char* option, int64_t value, int64_t least, int64_t most) {
  if (least <= value && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(option, ": ", value, ", must be ", least, " to ", most));
}

}  // namespace

absl::StatusOr<AlignJob> MakeAlignJob(const AlignJobOptions& options) {
  RETURN_IF_ERROR(CheckRange("--steps", options.steps, 1, 1000));
  RETURN_IF_ERROR(CheckRange("--micro-batch", options.micro_batch, 1, 4096));
  std::error_code ignored;
  absl::StatusOr<TrainingSpec> spec = std::filesystem::is_directory(options.model, ignored)
                                          ? SpecOfDirectory(options.model)
                                          : SpecOfJob(options.model);
  // Whatever keeps the model from being read, it is what the user gave.
  if (!spec.ok()) return absl::InvalidArgumentError(absl::StrCat("--model: ", spec.status().message()));
  TrainingShape& shape = spec->shape;
  if (options.sequence != 0)
    RETURN_IF_ERROR(CheckRange("--sequence", options.sequence, 1, shape.model.context));
  shape.sequence = options.sequence != 0 ? options.sequence : std::min(shape.sequence, kDefaultSequence);
  shape.global_batch_sequences = kMicroBatches * options.micro_batch;
  spec->steps = std::max(spec->steps, options.steps);
  if (options.precision.has_value()) spec->precision = *options.precision;
  if (!options.data.empty()) {
    spec->train_file = options.data;
    spec->data_format = TokenFormat::kAutomatic;
  }
  return AlignJob{.spec = *std::move(spec), .steps = options.steps, .micro_batch = options.micro_batch};
}

absl::StatusOr<std::unique_ptr<WindowSource>> OpenAlignWindows(const AlignJob& job) {
  if (job.spec.train_file.empty()) {
    return std::make_unique<MadeUpWindows>(job.spec.seed, job.spec.shape.model.vocabulary);
  }
  return FileWindowSource::Open(job.spec);
}

}  // namespace medley
