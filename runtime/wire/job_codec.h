#pragma once
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/medley/v1/job.pb.h"
#include "runtime/ir/job/training_spec.h"

namespace medley {

// What `spec` asks for in domain terms: every rule and what must hold between fields checked, defaults filled
// in as the comments of proto/medley/v1/job.proto say. Opens no file.
// `job_id`: names the job's folder under checkpoint.directory; empty if it has none yet, the folder is the
// directory then. `hugging_face_config`: the dimensions that model.hugging_face's config.json gives; not
// looked at without it.
//
// InvalidArgument "FIELD PATH: value and what is allowed". Of a pinned plan, what depends on the cluster's
// devices and their memory is not looked at; runtime/ir/plan/check_plan.h does that. `scheduling` and
// `constraints` are checked and stay in the message.
// FailedPrecondition: model.hugging_face is given and hugging_face_config is not.
absl::StatusOr<TrainingSpec> DecodeJobSpec(const v1::JobSpec& spec, const std::string& job_id,
                                           const std::optional<ModelConfig>& hugging_face_config);

// Micro-batch sizes that the planner may choose from, ascending, each once: those of the constraints, or the
// powers of two up to 16 that divide batch.sequences; of a spec with a pinned plan that plan's alone. `spec`
// must have passed DecodeJobSpec.
std::vector<int> CandidateMicroBatches(const v1::JobSpec& spec);

// The same without a pinned plan.
std::vector<int> CandidateMicroBatches(const v1::ConstraintSpec& constraints, int batch_sequences);

}  // namespace medley
