#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "coordinator/store/database.h"
#include "coordinator/store/directory_lock.h"
#include "proto/medley/v1/coordinator.pb.h"
#include "runtime/base/bytes.h"
#include "runtime/base/duration_histogram.h"
#include "runtime/base/mutex.h"

namespace medley {

struct StoreOptions {
  int log_lines_per_job = 10'000;  // the newest stay
  Bytes max_size{0};               // of the database file; 0: as large as the disk allows
};

// What the coordinator must not forget, in one SQLite file, `directory`/medley.db.
//
// A call that writes and returns OK is on disk, whole; one that fails has changed nothing. A call with
// several rows costs one sync of the disk, as a call with one does.
//
// Thread-safe; every call blocks for the disk.
//
// Errors of every call, beside its own (database.h has them all): ResourceExhausted, the disk is full;
// DataLoss, the file is damaged. Each names the file.
class Store {
 public:
  // Makes `directory` and its parents if they are missing. Reads the whole file to see that it is whole.
  // FailedPrecondition: another store has the directory open, in any process; the directory or the file
  // cannot be written to; or the file is a newer version's or another program's.
  static absl::StatusOr<std::unique_ptr<Store>> Open(const std::string& directory,
                                                     const StoreOptions& options = {});

  // --- Jobs

  // A new job, queued, submitted at `now_seconds` (unix), its id spec.name + "-" + a number that no job had
  // before, its run_id random, its `shape` as given. If a job with this `request_id` exists (empty: none), that job as it is now.
  // InvalidArgument: that job has another spec.
  absl::StatusOr<v1::Job> InsertJob(const v1::JobSpec& spec, const std::string& request_id,
                                    double now_seconds, const std::string& shape = "");

  // Whether a job was inserted with this `request_id`; with an empty one none was.
  absl::StatusOr<bool> HasRequest(const std::string& request_id);

  // Forgets the job and all that it reported. NotFound: no such job.
  absl::Status DeleteJob(const std::string& id);

  // Replaces the job with `job`'s id by `job`, every field of it.
  // NotFound: no such job.
  absl::Status UpdateJob(const v1::Job& job);

  // NotFound: no such job.
  absl::StatusOr<v1::Job> GetJob(const std::string& id);

  // Newest first, at most `limit` of them, all with their plans.
  absl::StatusOr<std::vector<v1::Job>> ListJobs(int limit);
  // Likewise, their ids alone: to read many jobs one at a time, between which others use the store.
  absl::StatusOr<std::vector<std::string>> ListJobIds(int limit);

  // Those not done, failed or cancelled, in order of submission.
  absl::StatusOr<std::vector<v1::Job>> UnfinishedJobs();

  // 1, 2, ...: never the same twice, over all jobs and restarts.
  absl::StatusOr<uint64_t> NextAttempt();

  // --- What a job reports. All: NotFound, no such job.

  // A step that is there already, from before a restart, is replaced.
  absl::Status AppendSteps(const std::string& job_id, absl::Span<const v1::StepMetrics> steps);
  absl::Status AppendValidations(const std::string& job_id,
                                 absl::Span<const v1::ValidationMetrics> validations);

  // Forgets steps and validations after `step`: they are made again.
  absl::Status DropStepsAfter(const std::string& job_id, uint32_t step);

  // Those of steps after `after_step`, ascending; with a `limit`, the newest so many.
  absl::StatusOr<std::vector<v1::StepMetrics>> ListSteps(const std::string& job_id, uint32_t after_step,
                                                         int limit = 0);
  // The first so many after `after_step`: to read a long job in pieces, between which others use the store.
  absl::StatusOr<std::vector<v1::StepMetrics>> NextSteps(const std::string& job_id, uint32_t after_step,
                                                         int most);
  absl::StatusOr<std::vector<v1::ValidationMetrics>> ListValidations(const std::string& job_id,
                                                                     uint32_t after_step);

  // Drops the oldest lines above StoreOptions::log_lines_per_job.
  absl::Status AppendLogs(const std::string& job_id, absl::Span<const v1::LogLine> lines);

  // The newest `limit` of those numbered above `after_line`, oldest first.
  absl::StatusOr<std::vector<v1::LogLine>> ListLogs(const std::string& job_id, int limit,
                                                    uint64_t after_line = 0);

  // The newest sixteen traces of each job (trace.job_id) stay.
  absl::Status PutTrace(const v1::Trace& trace);
  // The trace of `step`, or the newest if it is 0. NotFound, too: no step was traced yet, or not this one;
  // names those that were.
  absl::StatusOr<v1::Trace> GetTrace(const std::string& job_id, uint32_t step = 0);

  // What the job (grounds.job_id) was planned with; the newest stays.
  absl::Status PutPlanGrounds(const v1::PlanGrounds& grounds);
  // NotFound, too: it was not planned, or by an older version.
  absl::StatusOr<v1::PlanGrounds> GetPlanGrounds(const std::string& job_id);

  // --- Who did what. Records are never changed, and dropped by DropAudit alone.

  // Numbers the record.
  absl::Status AppendAudit(const v1::AuditRecord& record);
  // The newest `limit`, oldest first.
  absl::StatusOr<std::vector<v1::AuditRecord>> ListAudit(int limit);
  // Drops the oldest records, up to the first that is not from before `before_seconds` (Unix), and appends one, of `now_seconds`, that says
  // so; if there are any. How many were dropped.
  absl::StatusOr<int64_t> DropAudit(double before_seconds, double now_seconds);

  // --- Tokens by which agents join; a backup is restored without them.

  // A new one. Forgets those that expired before `forget_before_seconds` (Unix). AlreadyExists: there is one with its id.
  absl::Status InsertJoinToken(const v1::JoinTokenRecord& record, double forget_before_seconds);
  // Makes of a token's record what `change` does, which nobody else changes or reads meanwhile. Errors of `change`, after which nothing
  // has changed; NotFound: no such token.
  absl::Status ChangeJoinToken(const std::string& id,
                               absl::FunctionRef<absl::Status(v1::JoinTokenRecord&)> change);
  // Newest first.
  absl::StatusOr<std::vector<v1::JoinTokenRecord>> ListJoinTokens();

  // --- The nodes that a coordinator knew: when it comes back it waits for those whose leases were held, and still tells who is lost.

  struct KnownNode {
    v1::Node node;               // of a version before 7 nothing but its name
    double lost_at_seconds = 0;  // when it was heard of last, Unix; 0: its lease is held
  };
  // By name, what is known of it now; nothing: it is forgotten. All of them or none.
  absl::Status ChangeNodes(const std::map<std::string, std::optional<KnownNode>>& changed);
  // By name.
  absl::StatusOr<std::vector<KnownNode>> ListNodes();

  // --- Nodes on which no job starts.

  absl::Status PutDrainedNode(const std::string& name);
  // OK if it is not there.
  absl::Status DeleteDrainedNode(const std::string& name);
  absl::StatusOr<std::vector<std::string>> ListDrainedNodes();

  // --- All of it.

  // How many jobs have ended in each way.
  absl::StatusOr<std::map<v1::JobState, int64_t>> CountEndedJobs();
  // How long the calls took so far, by their names, waiting for each other included.
  std::map<std::string, DurationHistogram> Durations();
  // How often its file failed calls: full, gone, read-only or damaged.
  uint64_t Failures();
  // Whether the newest Check, if there was one, found it whole.
  bool IsWhole();
  // Where it is, as it was given.
  const std::string& directory() const { return directory_; }
  // Writes the store as it is now to a file, which must not be there yet and which its owner alone may read; others go on meanwhile. After
  // an error what was written so far is the caller's to remove. Errors, too: those of FileError.
  absl::Status BackUp(const std::string& file);
  // Reads the whole file to see that it is whole; others go on meanwhile. DataLoss: it is damaged.
  absl::Status Check();

  // --- What was measured

  // Takes the profile in under its device kind and shape. Times of micro-batch sizes that it does not have
  // are kept from the profile before, up to 64 sizes in all, and then `workspace_bytes` and
  // `copy_bytes_per_parameter` are the larger of both; everything else is the new one's.
  absl::Status PutProfile(const v1::DeviceProfile& profile);
  // NotFound: nothing was measured for these, or not for all of `micro_batch_sizes`; names those
  // that are missing.
  absl::StatusOr<v1::DeviceProfile> FindProfile(const std::string& device_kind, const std::string& shape,
                                                absl::Span<const uint32_t> micro_batch_sizes);
  // By device kind and shape; without what was learnt about single devices more than a day ago.
  absl::StatusOr<std::vector<v1::DeviceProfile>> ListProfiles();

  // Replaces what running jobs taught about the correction's times, or about its device, of the profile that was measured at that time (Unix
  // seconds); a measurement (PutProfile) forgets it. False: it was measured anew since, or is not there, and nothing
  // changed.
  absl::StatusOr<bool> PutCorrection(const std::string& device_kind, const std::string& shape,
                                     double measured_at_seconds, const v1::ProfileCorrection& correction);
  // Likewise, of how the others of the host slow down devices of a kind.
  absl::StatusOr<bool> PutSlowdownCorrection(const std::string& host, const std::string& shape,
                                             const std::string& device_kind, double measured_at_seconds,
                                             const v1::ProfileCorrection& correction);

  // How predictions of attempts came out: the newest hundred by launch, also of jobs that are deleted. Replaces what is known of the
  // same launch.
  absl::Status PutPredictionOutcome(const v1::PredictionOutcome& outcome);
  // By launch.
  absl::StatusOr<std::vector<v1::PredictionOutcome>> ListPredictionOutcomes();

  // Replaces what is known of the same host and shape.
  absl::Status PutHostSlowdown(const v1::HostSlowdown& slowdown);
  // By host and shape.
  absl::StatusOr<std::vector<v1::HostSlowdown>> ListHostSlowdowns();

  // Replaces the profile of the link between the same two ends with the same message_protection; a link from a to b is one from b
  // to a.
  absl::Status PutLink(const v1::LinkProfile& link);
  // By their ends.
  absl::StatusOr<std::vector<v1::LinkProfile>> ListLinks();

 private:
  Store(const StoreOptions& options, const std::string& directory, std::unique_ptr<DirectoryLock> lock,
        std::unique_ptr<Database> database)
      : options_(options), directory_(directory), lock_(std::move(lock)), database_(std::move(database)) {}

  // A call of this class, from its first line: holds the lock, and is timed.
  class ABSL_SCOPED_LOCKABLE Operation {
   public:
    Operation(Store& store, const char* name) ABSL_EXCLUSIVE_LOCK_FUNCTION(store.mutex_);
    ~Operation() ABSL_UNLOCK_FUNCTION();
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;

   private:
    Store& store_;
    const char* const name_;
    const absl::Time began_;
  };
  // Within a transaction.
  absl::Status AddToAudit(v1::AuditRecord record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Rows of jobs that ended under a version that did not tell how.
  absl::Status NoteEnds() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<int64_t> NextOf(const std::string& counter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The row of a job in all tables.
  absl::StatusOr<std::optional<v1::Job>> JobOfRequest(const std::string& request_id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<int64_t> NumberOf(const std::string& job_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const StoreOptions options_;
  const std::string directory_;
  const std::unique_ptr<DirectoryLock> lock_;  // outlives the database
  Mutex mutex_;
  const std::unique_ptr<Database> database_ ABSL_PT_GUARDED_BY(mutex_);
  std::map<std::string, DurationHistogram> durations_ ABSL_GUARDED_BY(mutex_);
  bool is_whole_ ABSL_GUARDED_BY(mutex_) = true;  // as Open found it
};

}  // namespace medley
