#include "coordinator/orchestrator/job_beginning.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/files/atomic_file.h"
#include "runtime/base/some_names.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/checkpoint/checkpoint.h"

namespace medley {

namespace {

v1::StepMetrics MetricsOf(const StepRecord& record, const CheckpointManifest& manifest, uint32_t attempt) {
  v1::StepMetrics metrics;
  metrics.set_step(static_cast<uint32_t>(record.step));
  metrics.set_loss(record.loss);
  metrics.set_gradient_norm(record.gradient_norm);
  metrics.set_learning_rate(record.learning_rate);
  metrics.set_step_seconds(record.seconds);
  metrics.set_tokens(static_cast<uint64_t>(manifest.data.global_batch_sequences) * manifest.data.sequence);
  metrics.set_attempt(attempt);
  metrics.set_skipped(record.skipped);
  metrics.set_at_seconds(record.ended_at_seconds);
  if (record.loss_scale != 1) metrics.set_loss_scale(static_cast<uint64_t>(record.loss_scale));
  return metrics;
}

// The steps that workers have trained up to `latest` without the journal having heard of them are taken from it, and from
// the checkpoints before it that are kept.
void AddMissed(const TrainingSpec& training, const v1::Job& job, const CheckpointManifest& latest,
               const std::set<std::string>& unreadable, JobJournal& journal) {
  int64_t known = job.last_step().step();
  // What another run has trained is not missing in this one.
  if (known == 0) known = StepOfDirectory(training.resume_from).value_or(0);
  if (latest.step <= known) return;
  std::map<uint32_t, v1::StepMetrics> missed;
  std::optional<CheckpointManifest> manifest = latest;
  while (manifest && manifest->step > known) {
    for (const StepRecord& record : manifest->steps) {
      if (record.step > known && record.step <= manifest->step)
        missed.emplace(record.step, MetricsOf(record, *manifest, std::max(1u, job.attempt() - 1)));
    }
    if (std::ssize(missed) == latest.step - known) break;
    const absl::StatusOr<CheckpointSearch> before = LatestCheckpoint(
        training.checkpoint_directory, Verification::kSizes, manifest->step - 1, job.run_id(), unreadable);
    manifest = before.ok() ? before->latest : std::nullopt;
  }
  std::vector<v1::StepMetrics> steps;
  int64_t next = known + 1;
  const auto say_missing = [&](int64_t last) {
    if (next > last) return;
    journal.Log(job.id(), "coordinator",
                absl::StrCat("the metrics of steps ", next, " to ", last, " were never told"));
  };
  for (auto& [step, metrics] : missed) {
    say_missing(step - 1);
    next = step + 1;
    steps.push_back(std::move(metrics));
  }
  say_missing(latest.step);
  if (steps.empty()) return;
  journal.Log(job.id(), "coordinator",
              absl::StrCat("steps from ", steps.front().step(), " to ", steps.back().step(),
                           " were trained while nobody was told; checkpoints say how"));
  journal.AddMissedSteps(job.id(), steps);
}

}  // namespace

absl::StatusOr<Beginning> BeginningOf(const TrainingSpec& training, const v1::Job& job,
                                      const std::set<std::string>& unreadable, JobJournal& journal) {
  const auto note = [&](const std::string& text) { journal.Log(job.id(), "coordinator", text); };
  if (!training.checkpoint_directory.empty()) {
    const absl::StatusOr<CheckpointSearch> found =
        LatestCheckpoint(training.checkpoint_directory, Verification::kSizes,
                         std::numeric_limits<int64_t>::max(), job.run_id(), unreadable);
    if (!found.ok()) {
      note(absl::StrCat("checkpoints cannot be looked for from here: ", found.status().message()));
    } else {
      for (const SkippedCheckpoint& skipped : found->skipped) {
        note(absl::StrCat("checkpoint ", skipped.directory, " is passed over: ", skipped.reason.message()));
      }
      if (found->latest) {
        AddMissed(training, job, *found->latest, unreadable, journal);
        return Beginning{found->latest->directory};
      }
    }
    // Where the coordinator does not see the directory, its word stands.
    if (!job.checkpoint_path().empty() && unreadable.count(job.checkpoint_path()) == 0)
      return Beginning{job.checkpoint_path()};
    // What may be whole is waited for, by an attempt that may have something to lose.
    const bool may_be_there = absl::IsUnavailable(found.status()) ||
                              absl::IsResourceExhausted(found.status()) ||
                              absl::IsPermissionDenied(found.status());
    if (may_be_there && (job.attempt() > 1 || !unreadable.empty())) {
      return absl::UnavailableError(
          absl::StrCat("checkpoint.directory cannot be looked into: ", found.status().message()));
    }
    if (!unreadable.empty()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "checkpoint.directory: no checkpoint is left that can be read (", SomeNames(unreadable),
          "); mend one and resume the job, or submit it again to train from the start"));
    }
  }
  return Beginning{training.resume_from, !training.resume_from.empty()};
}

std::string FingerprintOf(const v1::JobSpec& spec) {
  const std::string bytes = spec.SerializeAsString();
  return absl::StrFormat(
      "%016x",
      DigestOf(absl::MakeConstSpan(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size())).xxh3);
}

}  // namespace medley
