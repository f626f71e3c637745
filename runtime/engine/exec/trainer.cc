#include "runtime/engine/exec/trainer.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "runtime/base/clock.h"
#include "runtime/base/progress.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/unix_time.h"

namespace medley {
namespace {

// Between two looks at whether somebody wishes to finish.
constexpr absl::Duration kLookTime = absl::Milliseconds(200);

class Trainer {
 public:
  Trainer(const TrainerOptions& options, ModelShard& shard, StepExecutor& executor,
          const TrainerReports& reports)
      : options_(options),
        spec_(options.spec),
        identity_(options.identity),
        shard_(shard),
        executor_(executor),
        reports_(reports) {}

  absl::StatusOr<TrainingEnd> Run() {
    RETURN_IF_ERROR(AgreeOnData());
    for (int64_t step = options_.done_steps + 1; step <= spec_.steps; ++step) {
      ASSIGN_OR_RETURN(const StepOutcome outcome,
                       executor_.TrainStep(step, step < spec_.steps && !ValidationIsDue(step)));
      if (reports_.step) reports_.step(step, outcome);
      Keep(step, outcome);
      RETURN_IF_ERROR(Validate(step));
      const bool was_wished = wished_;
      wished_ = WishCounts(outcome);
      if (!SaveIsDue(step, wished_ && !was_wished)) continue;
      const absl::Status saved = Save(step);
      if (!saved.ok()) return Annotate(saved, absl::StrFormat("checkpoint of step %d", step));
      if (wished_ && !retry_at_.has_value() && step < spec_.steps)
        return TrainingEnd{.stopped_at_step = step};
    }
    AwaitAll();
    return TrainingEnd{};
  }

 private:
  // Every rank writes the same into a checkpoint: what the first rank that reads data found.
  absl::Status AgreeOnData() {
    if (spec_.checkpoint_directory.empty()) return absl::OkStatus();
    std::vector<double> readers(RankCount(executor_.plan()));
    readers[executor_.rank()] = identity_.data_fingerprint.empty() ? 0 : 1;
    RETURN_IF_ERROR(executor_.SumOverRanks(absl::MakeSpan(readers)));
    const auto first = std::find(readers.begin(), readers.end(), 1.0);
    if (first == readers.end()) return absl::OkStatus();
    ASSIGN_OR_RETURN(identity_.data_fingerprint,
                     executor_.TextOf(static_cast<int>(first - readers.begin()), identity_.data_fingerprint));
    return absl::OkStatus();
  }

  // Without a checkpoint and a validation the last step may end with a gather of parameters, which a rank that
  // has all of its own already would break off for the others by leaving. Who fails now says so itself: this
  // rank has trained, and peers of an earlier version leave at once.
  void AwaitAll() {
    double nothing = 0;
    (void)executor_.SumOverRanks(absl::MakeSpan(&nothing, 1));
  }

  void Keep(int64_t step, const StepOutcome& outcome) {
    if (executor_.rank() != 0 || spec_.checkpoint_directory.empty()) return;  // who writes the manifest
    if (records_.size() >= 2 * kMostStepRecords)
      records_.erase(records_.begin(), records_.end() - static_cast<std::ptrdiff_t>(kMostStepRecords));
    records_.push_back({.step = step,
                        .loss = outcome.loss,
                        .gradient_norm = outcome.gradient_norm,
                        .learning_rate = outcome.learning_rate,
                        .seconds = outcome.seconds,
                        .ended_at_seconds = UnixSecondsNow(),
                        .loss_scale = outcome.loss_scale,
                        .skipped = outcome.skipped});
  }

  bool ValidationIsDue(int64_t step) const {
    return spec_.validate_every_steps > 0 && (step == spec_.steps || step % spec_.validate_every_steps == 0);
  }

  absl::Status Validate(int64_t step) {
    if (!ValidationIsDue(step)) return absl::OkStatus();
    const absl::StatusOr<double> loss = executor_.Evaluate();
    if (!loss.ok()) return Annotate(loss.status(), absl::StrFormat("validation after step %d", step));
    if (reports_.validation) reports_.validation(step, *loss);
    return absl::OkStatus();
  }

  bool WishCounts(const StepOutcome& outcome) {
    if (!outcome.finish_wished || !spec_.checkpoint_directory.empty()) return outcome.finish_wished;
    if (!warned_ && executor_.rank() == 0 && reports_.warning) {
      reports_.warning("asked to end with a checkpoint, but the job has no checkpoint.directory: it goes on");
    }
    warned_ = true;
    return false;
  }

  // `newly_wished`: by this step, and not by the one before: a try that failed before says little of one that somebody
  // waits for.
  bool SaveIsDue(int64_t step, bool newly_wished) const {
    if (spec_.checkpoint_directory.empty()) return false;
    if (step == spec_.steps || newly_wished) return true;
    if (retry_at_.has_value()) return step >= *retry_at_;
    return step % spec_.checkpoint_every_steps == 0;
  }

  // One try; after the last step as many as are due. Afterwards retry_at_ is set if there is no checkpoint.
  absl::Status Save(int64_t step) {
    const absl::Time give_up = Now() + options_.last_save_limit;
    for (absl::Duration pause = options_.first_pause;; pause = std::min(2 * pause, options_.longest_pause)) {
      ASSIGN_OR_RETURN(const SavedCheckpoint saved,
                       SaveCheckpoint(spec_, identity_, step, shard_, executor_, records_));
      Report(step, saved);
      retry_at_.reset();
      if (saved.written.ok()) return absl::OkStatus();
      retry_at_ = step + std::max<int64_t>(1, spec_.checkpoint_every_steps / 10);
      if (step < spec_.steps) return absl::OkStatus();
      ASSIGN_OR_RETURN(const bool again, Pause(step, pause, give_up));
      if (!again) return saved.written;
    }
  }

  void Report(int64_t step, const SavedCheckpoint& saved) {
    if (!saved.written.ok()) {
      const std::string reason(saved.written.message());
      if (reports_.checkpoint_failed) reports_.checkpoint_failed(step, reason);
      if (executor_.rank() == 0 && reports_.warning)
        reports_.warning(absl::StrCat("the checkpoint of step ", step, " could not be written: ", reason));
      return;
    }
    if (reports_.checkpoint) reports_.checkpoint(step, saved.directory);
    if (!saved.tidied.ok() && reports_.warning) {
      reports_.warning(absl::StrCat("old checkpoints stay: ", saved.tidied.message()));
    }
  }

  // Whether to try again after `pause`: unless rank 0 finds the time to be over, or some rank wishes to
  // finish.
  absl::StatusOr<bool> Pause(int64_t step, absl::Duration pause, absl::Time give_up) {
    const absl::Time end = Now() + pause;
    executor_.activity()->Enter(absl::StrCat("checkpoint of step ", step, ": waiting to try again"));
    while (Now() < end && !executor_.wishes_to_finish()) {
      Progress::OfProcess().Add();
      absl::SleepFor(std::min(kLookTime, end - Now()));
    }
    double votes = executor_.wishes_to_finish() || (executor_.rank() == 0 && Now() >= give_up) ? 1 : 0;
    RETURN_IF_ERROR(executor_.SumOverRanks({&votes, 1}));
    return votes == 0;
  }

  const TrainerOptions& options_;
  const TrainingSpec& spec_;
  RunIdentity identity_;
  ModelShard& shard_;
  StepExecutor& executor_;
  const TrainerReports& reports_;
  // The newest checkpoint could not be written: the step after which it is tried again.
  std::optional<int64_t> retry_at_;
  bool wished_ = false;  // by some rank, to finish, with the newest step
  bool warned_ = false;
  std::vector<StepRecord> records_;  // of the newest steps, of rank 0
};

}  // namespace

absl::StatusOr<TrainingEnd> Train(const TrainerOptions& options, ModelShard& shard, StepExecutor& executor,
                                  const TrainerReports& reports) {
  return Trainer(options, shard, executor, reports).Run();
}

}  // namespace medley
