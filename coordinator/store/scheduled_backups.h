#pragma once
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/store/backup_directory.h"
#include "coordinator/store/store.h"
#include "runtime/base/mutex.h"
#include "runtime/base/stop_signal.h"

namespace medley {

struct BackupSchedule {
  std::string directory;  // see BackupDirectory
  absl::Duration every;
  int keep = 1;
};

// For how long there is none to be made; zero: now.
absl::Duration UntilNextBackup(std::optional<absl::Time> newest, absl::Time now, absl::Duration every);

// Backs a store up again and again, beside whoever reads and writes: when the newest backup, of this process or one before, is `every` old.
// Owns a thread, which the destructor ends; a backup that is under way is ended first, which takes as long as writing it.
class ScheduledBackups {
 public:
  // `told`, from that thread: the file of each backup, or why there is none, also where the directory cannot be used and none is due.
  ScheduledBackups(Store& store, BackupSchedule schedule,
                   std::function<void(const absl::StatusOr<std::string>&)> told);
  ~ScheduledBackups();

  absl::Duration every() const { return schedule_.every; }
  // When the newest was made, as the directory was last read; nothing: there was none. Thread-safe.
  std::optional<absl::Time> newest() const;

 private:
  void Loop();
  // Makes one if it is time; for how long there is none to be made then.
  absl::StatusOr<absl::Duration> Turn();
  absl::StatusOr<std::optional<absl::Time>> ReadNewest(absl::Time now);

  Store& store_;
  const BackupSchedule schedule_;
  const BackupDirectory directory_;
  const std::function<void(const absl::StatusOr<std::string>&)> told_;
  mutable Mutex mutex_;
  std::optional<absl::Time> newest_ ABSL_GUARDED_BY(mutex_);
  StopSignal stop_;
  std::thread thread_;
};

}  // namespace medley
