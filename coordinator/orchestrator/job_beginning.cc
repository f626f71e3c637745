#include "coordinator/orchestrator/job_beginning.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/files/atomic_file.h"
#include "runtime/base/some_names.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/checkpoint/checkpoint.h"

namespace medley {

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
        const int64_t known = job.last_step().step(), step = found->latest->step;
        if (step > known)
          note(absl::StrCat("the metrics of steps ", known + 1, " to ", step, " were never told"));
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
