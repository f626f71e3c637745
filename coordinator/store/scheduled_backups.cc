#include "coordinator/store/scheduled_backups.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// A disk that was full or away may be back.
constexpr absl::Duration kRetryAfter = absl::Hours(1);

}  // namespace

absl::Duration UntilNextBackup(std::optional<absl::Time> newest, absl::Time now, absl::Duration every) {
  if (!newest.has_value()) return absl::ZeroDuration();
  return std::clamp(*newest + every - now, absl::ZeroDuration(), every);
}

ScheduledBackups::ScheduledBackups(Store& store, BackupSchedule schedule,
                                   std::function<void(const absl::StatusOr<std::string>&)> told)
    : store_(store),
      schedule_(std::move(schedule)),
      directory_(schedule_.directory, schedule_.keep),
      told_(std::move(told)),
      thread_([this] { Loop(); }) {}

ScheduledBackups::~ScheduledBackups() {
  stop_.Stop();
  thread_.join();
}

std::optional<absl::Time> ScheduledBackups::newest() const {
  const MutexLock lock(mutex_);
  return newest_;
}

absl::StatusOr<std::optional<absl::Time>> ScheduledBackups::ReadNewest(absl::Time now) {
  ASSIGN_OR_RETURN(const std::optional<absl::Time> newest, directory_.Newest(now));
  const MutexLock lock(mutex_);
  newest_ = newest;
  return newest;
}

absl::StatusOr<absl::Duration> ScheduledBackups::Turn() {
  RETURN_IF_ERROR(directory_.Prepare());
  // The system's clock, by which files are named and people read them.
  const absl::Time now = absl::Now();
  ASSIGN_OR_RETURN(const std::optional<absl::Time> newest, ReadNewest(now));
  if (const absl::Duration wait = UntilNextBackup(newest, now, schedule_.every); wait > absl::ZeroDuration())
    return wait;
  const absl::StatusOr<std::string> file = directory_.Add(store_, now);
  RETURN_IF_ERROR(ReadNewest(now).status());
  RETURN_IF_ERROR(file.status());
  told_(*file);
  return UntilNextBackup(now, absl::Now(), schedule_.every);
}

void ScheduledBackups::Loop() {
  absl::StatusOr<absl::Duration> wait;
  do {
    wait = Turn();
    if (!wait.ok()) told_(wait.status());
  } while (stop_.SleepUnlessStopped(wait.ok() ? *wait : std::min(schedule_.every, kRetryAfter)));
}

}  // namespace medley
