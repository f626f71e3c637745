#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/jobs/job_life.h"
#include "coordinator/store/store.h"
#include "proto/medley/v1/coordinator.pb.h"
#include "runtime/base/mutex.h"

namespace medley {

// The state of jobs as users see it: every change of a job goes through here to the store and to those who watch.
// Changes of state are on disk before they are seen; metrics and log lines within kFlushEvery.
//
// Thread-safe. A store that fails (disk full) is logged; what could not be written is tried again with the next flush.
class JobJournal {
 public:
  explicit JobJournal(Store& store) : store_(store) {}

  // From the store on first use. NotFound.
  absl::StatusOr<v1::Job> Get(const std::string& job_id);
  void Add(const v1::Job& job);

  // Applies `change` and writes the job and what is pending of it. Returns the job as it is then.
  absl::StatusOr<v1::Job> Change(const std::string& job_id, const std::function<void(v1::Job&)>& change);
  // Runs the state machine; also logs the change of state, notes when the job starts and ends, and writes what is pending of
  // the job, so that who sees it ended finds everything. FailedPrecondition: the state does not allow it.
  absl::StatusOr<v1::Job> Apply(const std::string& job_id, JobEvent event, const std::string& cause);

  void AddStep(const std::string& job_id, const v1::StepMetrics& step);
  void AddValidation(const std::string& job_id, const v1::ValidationMetrics& validation);
  void Log(const std::string& job_id, const std::string& source, const std::string& text);

  // Writes what is pending. To be called every kFlushEvery.
  void Flush();
  static constexpr absl::Duration kFlushEvery = absl::Milliseconds(200);

  // A number that grows with every change of the job. Blocks until it is over `seen`, or `deadline`.
  uint64_t AwaitChange(const std::string& job_id, uint64_t seen, absl::Time deadline);

 private:
  struct Entry {
    v1::Job job;
    uint64_t version = 1;
    bool dirty = false;  // differs from the store
    std::vector<double> step_seconds;  // of the current attempt
    std::vector<v1::StepMetrics> steps;
    std::vector<v1::ValidationMetrics> validations;
    std::vector<v1::LogLine> logs;
  };
  absl::StatusOr<Entry*> Find(const std::string& job_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AppendLog(Entry& entry, const std::string& source, const std::string& text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status TryWrite(const std::string& job_id, const Entry& entry);
  // All that is pending, and the job; `dirty` stays if it fails.
  void Write(const std::string& job_id, Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Changed(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Store& store_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

// Unix time now.
double NowSeconds();

}  // namespace medley
