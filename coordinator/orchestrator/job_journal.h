#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/jobs/job_life.h"
#include "coordinator/store/store.h"
#include "proto/medley/v1/coordinator.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"

namespace medley {

// The state of jobs as users see it: every change of a job goes through here to the store and to those who
// watch. Changes of state are on disk before they are seen; metrics and log lines within kFlushEvery. Texts
// that are no UTF-8 are made so. A job that has ended is forgotten after a while and read from the store
// again.
//
// Thread-safe. A store that fails (disk full) is logged; what could not be written is tried again with the
// next flush.
class JobJournal {
 public:
  // Both outlive it. `clock`: by which a job that has ended is forgotten.
  explicit JobJournal(Store& store, const Clock& clock = Clock::Steady()) : store_(store), clock_(clock) {}

  // From the store on first use. NotFound. What it waits for (SetWait) is in its reason.
  absl::StatusOr<v1::Job> Get(const std::string& job_id);
  // `look` sees the job where it lies, less what it waits for: for what looks at every step or tick, as a
  // copy is as large as the job's plan. It calls nothing of the journal. NotFound.
  absl::Status Look(const std::string& job_id, const std::function<void(const v1::Job&)>& look);
  // Of how many steps the job's measured_step_seconds is the median, as far as they were heard of here. An unknown job's: 0.
  size_t MeasuredSteps(const std::string& job_id);
  // How the current attempt goes now, as far as it was heard of here. An unknown job's: zeros.
  struct Pace {
    int64_t steps = 0;  // of the attempt
    double step_seconds =
        0;  // median of the newest 16 steps, the attempt's first two left out; 0: there are none
  };
  Pace PaceOf(const std::string& job_id);
  // Newest first, at most `limit` of those that there are now: `take` gets each as ListJobs has it, until it returns false. One at a time,
  // and `take` may block: the past jobs of a year with their plans are gigabytes, and others go on meanwhile. One that is deleted meanwhile
  // is left out. Errors: the store's.
  absl::Status List(int limit, absl::FunctionRef<bool(const v1::Job&)> take);
  // Those that have not ended, by id, and since when (Unix seconds) they are in their states.
  struct Standing {
    std::string id;
    v1::JobState state;
    double since_seconds;
  };
  std::vector<Standing> Unfinished();
  // A job that was inserted into the store. One that is known already stays as it is: it may be further on.
  void Add(const v1::Job& job);
  // FailedPrecondition: it has not ended.
  absl::Status Delete(const std::string& job_id);

  // Applies `change` and writes the job and what is pending of it. Returns the job as it is then.
  absl::StatusOr<v1::Job> Change(const std::string& job_id, const std::function<void(v1::Job&)>& change);
  // Runs the state machine; also logs the change of state, notes when the job starts and ends, and writes
  // what is pending of the job, so that who sees it ended finds everything. `change`, if given, is done with
  // it, in one write. FailedPrecondition: the state does not allow it.
  absl::StatusOr<v1::Job> Apply(const std::string& job_id, JobEvent event, const std::string& cause,
                                const std::function<void(v1::Job&)>& change = nullptr);

  // What a waiting job waits for, for people; empty: nothing. Not kept on disk.
  void SetWait(const std::string& job_id, const std::string& what);

  // The first step of an attempt drops those that the attempt before had made after it.
  void AddStep(const std::string& job_id, const v1::StepMetrics& step);
  // Steps of attempts before, which nobody could tell when they were made; ascending. Those up to the newest that is
  // known are passed over. They count as trained, and as no time.
  void AddMissedSteps(const std::string& job_id, const std::vector<v1::StepMetrics>& steps);
  void AddValidation(const std::string& job_id, const v1::ValidationMetrics& validation);
  void Log(const std::string& job_id, const std::string& source, const std::string& text);
  // Event `number` of the job's task `task` has been dealt with; on disk no earlier than what came of it.
  void Seen(const std::string& job_id, int task, uint64_t number);

  // Writes what is pending, and forgets what has ended. To be called every kFlushEvery.
  void Flush();
  static constexpr absl::Duration kFlushEvery = absl::Milliseconds(200);

  // How many jobs it has in memory: those that have not ended, and those that were asked for within kKeepEnded.
  int Kept();
  static constexpr absl::Duration kKeepEnded = absl::Minutes(1);

  // Whether all changes of the job's state are on disk, for who is to be told that they are done. Unavailable: they
  // are not yet, and why. NotFound.
  absl::Status CheckKept(const std::string& job_id);

  struct Glance {
    uint64_t version = 0;  // grows with every change of the job; 0: there is no such job
    uint32_t attempt = 0;
    uint32_t first_step = 0;  // of the attempt, as far as it is known here; 0: not known
  };
  // Blocks until the job's version is over `seen`, the job is deleted, or `deadline`.
  Glance AwaitChange(const std::string& job_id, uint64_t seen, absl::Time deadline);

 private:
  struct Entry {
    v1::Job job;
    std::string wait;
    uint64_t version = 1;
    bool dirty = false;      // differs from the store
    absl::Status unwritten;  // why, if the store did not take it when it was last asked
    bool deleted = false;    // and kept for those that watch it alone
    int watchers = 0;        // that hold a pointer to it
    absl::Time used;
    uint32_t first_step = 0;           // of the current attempt
    std::vector<double> step_seconds;  // of the current attempt
    std::deque<double> newest_step_seconds;
    std::vector<v1::StepMetrics> steps;
    std::vector<v1::ValidationMetrics> validations;
    std::vector<v1::LogLine> logs;
  };
  // As Get, but a job that is not in memory does not come there.
  absl::StatusOr<v1::Job> Read(const std::string& job_id);
  absl::StatusOr<Entry*> Find(const std::string& job_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AppendLog(Entry& entry, const std::string& source, const std::string& text)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status TryWrite(const std::string& job_id, const Entry& entry);
  // All that is pending, and the job; `dirty` stays if it fails.
  void Write(const std::string& job_id, Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Changed(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static v1::Job View(const Entry& entry);

  Store& store_;
  const Clock& clock_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace medley
