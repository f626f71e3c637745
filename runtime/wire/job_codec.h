#pragma once
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "proto/medley/v1/job.pb.h"
#include "runtime/ir/job/job_constraints.h"
#include "runtime/ir/job/training_spec.h"

namespace medley {

// What `spec` asks for in domain terms: every rule and what must hold between fields checked, defaults filled
// in as the comments of proto/medley/v1/job.proto say. Opens no file.
// `job_id`: names the job's folder under checkpoint.directory; empty if it has none yet, the folder is the
// directory then. `hugging_face_config`: the dimensions that model.hugging_face's config.json gives; not
// looked at without it.
//
// InvalidArgument "FIELD PATH: value and what is allowed". Of a pinned plan, what depends on the cluster's
// devices and their memory is not looked at; runtime/ir/plan/check_plan.h does that. `constraints` are
// checked, and DecodeConstraints gives them; `scheduling` is checked and stays in the message.
// FailedPrecondition: model.hugging_face is given and hugging_face_config is not.
absl::StatusOr<TrainingSpec> DecodeJobSpec(const v1::JobSpec& spec, const std::string& job_id,
                                           const std::optional<ModelConfig>& hugging_face_config);

// What the plan of `spec` may be chosen from: its constraints, or with a pinned plan that plan's devices,
// micro-batch sizes and schedule alone (all schedules, if the planner does not choose the plan's). `spec`
// must have passed DecodeJobSpec. InvalidArgument: a schedule is none, or DecodePlan's.
absl::StatusOr<JobConstraints> DecodeConstraints(const v1::JobSpec& spec);

}  // namespace medley
