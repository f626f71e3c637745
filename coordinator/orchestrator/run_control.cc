#include "coordinator/orchestrator/run_control.h"

#include <utility>

#include "runtime/base/clock.h"

namespace medley {
namespace {

constexpr char kStopping[] = "the coordinator is stopping";

// Whether the same job may well go on elsewhere or later.
bool IsLoss(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kAborted:
      return true;
    default:
      return false;
  }
}

}  // namespace

void RunControl::Abort(JobEvent event, const std::string& cause) {
  MutexLock lock(mutex_);
  // That somebody cancelled it was promised to them.
  if (!aborted_ || event == JobEvent::kCancelled) aborted_ = RunOutcome{.event = event, .cause = cause};
  stop_planning_ = true;
  for (AttemptRun* run : current_) run->Abort(absl::CancelledError(cause));
}

void RunControl::FinishEarly(JobEvent event, const std::string& cause) {
  MutexLock lock(mutex_);
  if (!wish_ || wish_->event != JobEvent::kCancelled) wish_ = RunOutcome{.event = event, .cause = cause};
  if (training_ != nullptr) training_->FinishEarly();
}

void RunControl::RepeatWish() {
  MutexLock lock(mutex_);
  if (wish_ && training_ != nullptr) training_->FinishEarly();
}

void RunControl::Leave() {
  MutexLock lock(mutex_);
  leaving_ = true;
  stop_planning_ = true;
  for (AttemptRun* run : current_) {
    if (run == training_) {
      run->Leave();
    } else {
      run->Abort(absl::CancelledError(kStopping));
    }
  }
}

bool RunControl::cancelled() {
  MutexLock lock(mutex_);
  return aborted_ && aborted_->event == JobEvent::kCancelled;
}

std::vector<std::string> RunControl::TaskIds() {
  MutexLock lock(mutex_);
  std::vector<std::string> ids;
  for (const AttemptRun* run : current_) {
    for (std::string& id : run->TaskIds()) ids.push_back(std::move(id));
  }
  return ids;
}

absl::Time RunControl::LastHeard() {
  MutexLock lock(mutex_);
  return training_ == nullptr ? absl::InfinitePast() : heard_;
}

AttemptEnd RunControl::WhileUnderWay(AttemptRun& run, bool trains, const std::function<AttemptEnd()>& work) {
  {
    MutexLock lock(mutex_);
    if (const absl::Status wanted = StillWantedLocked(); !wanted.ok()) return {.status = wanted};
    current_.insert(&run);
    if (trains) training_ = &run;
    heard_ = Now();
  }
  AttemptEnd end = work();
  MutexLock lock(mutex_);
  current_.erase(&run);
  if (trains) training_ = nullptr;
  return end;
}

void RunControl::Heard() {
  MutexLock lock(mutex_);
  heard_ = Now();
}

bool RunControl::Trains() {
  MutexLock lock(mutex_);
  return training_ != nullptr;
}

bool RunControl::Leaving() {
  MutexLock lock(mutex_);
  return leaving_ && !aborted_;
}

absl::Status RunControl::StillWanted() {
  MutexLock lock(mutex_);
  return StillWantedLocked();
}

absl::Status RunControl::StillWantedLocked() const {
  if (aborted_) return absl::CancelledError(aborted_->cause);
  if (leaving_) return absl::CancelledError(kStopping);
  return absl::OkStatus();
}

RunOutcome RunControl::OutcomeOf(const AttemptEnd& end) {
  MutexLock lock(mutex_);
  if (end.left) return {.left = true};
  // It ended by itself: what was lost since comes too late.
  if (end.stopped) {
    return {.event = wish_ ? wish_->event : JobEvent::kInterrupted,
            .cause = wish_ ? wish_->cause : "it was asked to finish early",
            .end = end};
  }
  if (end.status.ok()) return {};
  if (aborted_) return {.event = aborted_->event, .cause = aborted_->cause, .end = end};
  if (leaving_) return {.event = JobEvent::kInterrupted, .cause = "the coordinator was stopped", .end = end};
  if (end.store_failed)
    return {.event = JobEvent::kInterrupted, .cause = std::string(end.status.message()), .end = end};
  // A message that did not arrive as it was sent says nothing against the job.
  const bool lost_message = end.prepared && absl::IsDataLoss(end.status);
  return {.event = IsLoss(end.status) || lost_message ? JobEvent::kLost : JobEvent::kRefused,
          .cause = std::string(end.status.message()),
          .end = end};
}

}  // namespace medley
