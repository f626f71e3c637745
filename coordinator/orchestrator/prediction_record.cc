#include "coordinator/orchestrator/prediction_record.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "runtime/log/log.h"

namespace medley {

void NotePredictionOutcome(Store& store, JobJournal& journal, const std::string& job_id) {
  if (journal.MeasuredSteps(job_id) < kFewestMeasuredSteps) return;
  v1::PredictionOutcome outcome;
  bool tells = false;
  (void)journal.Look(job_id, [&](const v1::Job& job) {
    outcome.set_launch(job.launch());
    outcome.set_job_id(job.id());
    outcome.set_predicted_step_seconds(job.plan().predicted_step_seconds());
    outcome.set_measured_step_seconds(job.measured_step_seconds());
    std::set<std::string> kinds;
    for (const v1::DeviceShare& device : job.plan().devices()) {
      if (device.used()) kinds.insert(device.kind());
    }
    outcome.mutable_device_kinds()->Add(kinds.begin(), kinds.end());
    tells =
        !job.plan().emulated() && outcome.predicted_step_seconds() > 0 && outcome.measured_step_seconds() > 0;
  });
  if (!tells) return;
  const absl::Status kept = store.PutPredictionOutcome(outcome);
  if (kept.ok()) return;
  journal.Log(job_id, "coordinator",
              absl::StrCat("how far its predicted step was off is not kept: ", kept.message()));
}

std::vector<v1::LiveError> PredictionErrors(Store& store) {
  std::vector<v1::LiveError> errors;
  const absl::StatusOr<std::vector<v1::PredictionOutcome>> outcomes = store.ListPredictionOutcomes();
  if (!outcomes.ok()) {
    LogError(absl::StrCat("how far predictions were off is not known: ", outcomes.status().message()));
    return errors;
  }
  for (const v1::PredictionOutcome& outcome : *outcomes) {
    v1::LiveError& error = errors.emplace_back();
    *error.mutable_device_kinds() = outcome.device_kinds();
    error.set_error(outcome.predicted_step_seconds() / outcome.measured_step_seconds() - 1);
  }
  return errors;
}

}  // namespace medley
