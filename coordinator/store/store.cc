#include "coordinator/store/store.h"

#include <algorithm>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/store/message_rows.h"
#include "coordinator/store/schema.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"

// The store itself and its jobs; job_reports.cc has what jobs report, profile_records.cc what was measured.
namespace medley {
namespace {

// The column `ended`: 0 of a job that has not, otherwise the state in which it has. Of an older version: kEndedSomehow.
int EndOf(const v1::Job& job) {
  return job.state() == v1::JOB_STATE_DONE || job.state() == v1::JOB_STATE_FAILED ||
                 job.state() == v1::JOB_STATE_CANCELLED
             ? job.state()
             : 0;
}
constexpr int kEndedSomehow = 1;

std::string NewRunId() {
  std::random_device device;
  return absl::StrFormat("%08x%08x", device(), device());
}

absl::Status NoSuchJob(const std::string& id) {
  return absl::NotFoundError(absl::StrCat("no job \"", id, "\""));
}

absl::StatusOr<std::vector<std::string>> TextsOf(absl::StatusOr<Statement> rows) {
  RETURN_IF_ERROR(rows.status());
  std::vector<std::string> texts;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, rows->Step());
    if (!row) return texts;
    texts.push_back(rows->Binary(0));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const std::string& directory,
                                                   const StoreOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<DirectoryLock> lock, DirectoryLock::Acquire(directory, "medley.lock"));
  ASSIGN_OR_RETURN(std::unique_ptr<Database> database,
                   Database::Open(directory + "/medley.db", options.max_size));
  RETURN_IF_ERROR(PrepareSchema(*database));
  std::unique_ptr<Store> store(new Store(options, directory, std::move(lock), std::move(database)));
  const MutexLock holds(store->mutex_);
  RETURN_IF_ERROR(store->NoteEnds());
  return store;
}

Store::Operation::Operation(Store& store, const char* name) : store_(store), name_(name), began_(Now()) {
  store_.mutex_.Lock();
}

Store::Operation::~Operation() {
  store_.durations_[name_].Add(absl::ToDoubleSeconds(Now() - began_));
  store_.mutex_.Unlock();
}

std::map<std::string, DurationHistogram> Store::Durations() {
  const MutexLock lock(mutex_);
  return durations_;
}

uint64_t Store::Failures() {
  const MutexLock lock(mutex_);
  return database_->failures();
}

bool Store::IsWhole() {
  const MutexLock lock(mutex_);
  return is_whole_;
}

absl::Status Store::NoteEnds() {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(*database_));
  // So that counting reads nothing else.
  RETURN_IF_ERROR(database_->Run("CREATE INDEX IF NOT EXISTS jobs_by_end ON jobs (ended)"));
  ASSIGN_OR_RETURN(const std::vector<v1::Job> jobs,
                   AllOf<v1::Job>(*database_, database_->Query("SELECT message FROM jobs WHERE ended = ?",
                                                               kEndedSomehow)));
  for (const v1::Job& job : jobs)
    RETURN_IF_ERROR(database_->Run("UPDATE jobs SET ended = ? WHERE id = ?", EndOf(job), job.id()));
  return transaction.Commit();
}

absl::StatusOr<std::map<v1::JobState, int64_t>> Store::CountEndedJobs() {
  const Operation operation(*this, __func__);
  ASSIGN_OR_RETURN(Statement rows,
                   database_->Query("SELECT ended, COUNT(*) FROM jobs WHERE ended > 0 GROUP BY ended"));
  std::map<v1::JobState, int64_t> counts;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, rows.Step());
    if (!row) return counts;
    counts[static_cast<v1::JobState>(rows.Integer(0))] = rows.Integer(1);
  }
}

absl::StatusOr<int64_t> Store::NextOf(const std::string& counter) {
  RETURN_IF_ERROR(database_->Run(
      "INSERT INTO counters (name, value) VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET value = value + 1",
      counter));
  ASSIGN_OR_RETURN(Statement value, database_->Query("SELECT value FROM counters WHERE name = ?", counter));
  RETURN_IF_ERROR(value.Step().status());
  return value.Integer(0);
}

absl::StatusOr<int64_t> Store::NumberOf(const std::string& job_id) {
  ASSIGN_OR_RETURN(Statement number, database_->Query("SELECT number FROM jobs WHERE id = ?", job_id));
  ASSIGN_OR_RETURN(const bool found, number.Step());
  if (!found) return NoSuchJob(job_id);
  return number.Integer(0);
}

absl::StatusOr<std::optional<v1::Job>> Store::JobOfRequest(const std::string& request_id) {
  return FirstOf<v1::Job>(*database_,
                          database_->Query("SELECT message FROM jobs WHERE request_id = ?", request_id));
}

absl::StatusOr<bool> Store::HasRequest(const std::string& request_id) {
  if (request_id.empty()) return false;
  const Operation operation(*this, __func__);
  ASSIGN_OR_RETURN(const std::optional<v1::Job> earlier, JobOfRequest(request_id));
  return earlier.has_value();
}

absl::StatusOr<v1::Job> Store::InsertJob(const v1::JobSpec& spec, const std::string& request_id,
                                         double now_seconds, const std::string& shape) {
  const Operation operation(*this, __func__);
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(*database_));
  if (!request_id.empty()) {
    ASSIGN_OR_RETURN(std::optional<v1::Job> earlier, JobOfRequest(request_id));
    if (earlier.has_value()) {
      if (earlier->spec().SerializeAsString() == spec.SerializeAsString()) return *std::move(earlier);
      return absl::InvalidArgumentError(
          absl::StrCat("request_id: \"", request_id, "\" is job ", earlier->id(),
                       "'s, which has another spec; a new job needs a new one"));
    }
  }
  ASSIGN_OR_RETURN(const int64_t number, NextOf("jobs"));
  v1::Job job;
  job.set_id(absl::StrCat(spec.name(), "-", number));
  *job.mutable_spec() = spec;
  job.set_run_id(NewRunId());
  job.set_state(v1::JOB_STATE_QUEUED);
  job.set_held(spec.scheduling().hold());
  job.set_submitted_at_seconds(now_seconds);
  job.set_shape(shape);
  ASSIGN_OR_RETURN(const std::string bytes, ToRow(job));
  RETURN_IF_ERROR(database_->Run("INSERT INTO jobs (number, id, ended, message) VALUES (?, ?, 0, ?)", number,
                                 job.id(), Blob{bytes}));
  if (!request_id.empty()) {
    RETURN_IF_ERROR(database_->Run("UPDATE jobs SET request_id = ? WHERE number = ?", request_id, number));
  }
  RETURN_IF_ERROR(transaction.Commit());
  return job;
}

absl::Status Store::UpdateJob(const v1::Job& job) {
  ASSIGN_OR_RETURN(const std::string bytes, ToRow(job));
  const Operation operation(*this, __func__);
  ASSIGN_OR_RETURN(const int64_t number, NumberOf(job.id()));
  return database_->Run("UPDATE jobs SET ended = ?, message = ? WHERE number = ?", EndOf(job), Blob{bytes},
                        number);
}

absl::StatusOr<v1::Job> Store::GetJob(const std::string& id) {
  const Operation operation(*this, __func__);
  ASSIGN_OR_RETURN(
      std::optional<v1::Job> job,
      FirstOf<v1::Job>(*database_, database_->Query("SELECT message FROM jobs WHERE id = ?", id)));
  if (!job.has_value()) return NoSuchJob(id);
  return *std::move(job);
}

absl::StatusOr<std::vector<v1::Job>> Store::ListJobs(int limit) {
  const Operation operation(*this, __func__);
  return AllOf<v1::Job>(*database_, database_->Query("SELECT message FROM jobs ORDER BY number DESC LIMIT ?",
                                                     std::max(limit, 0)));
}

absl::StatusOr<std::vector<std::string>> Store::ListJobIds(int limit) {
  const Operation operation(*this, __func__);
  return TextsOf(database_->Query("SELECT id FROM jobs ORDER BY number DESC LIMIT ?", std::max(limit, 0)));
}

absl::StatusOr<std::vector<v1::Job>> Store::UnfinishedJobs() {
  const Operation operation(*this, __func__);
  return AllOf<v1::Job>(*database_,
                        database_->Query("SELECT message FROM jobs WHERE ended = 0 ORDER BY number"));
}

absl::Status Store::DeleteJob(const std::string& id) {
  const Operation operation(*this, __func__);
  ASSIGN_OR_RETURN(const int64_t number, NumberOf(id));
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(*database_));
  for (const char* table : {"steps", "validations", "logs", "traces", "plan_grounds"}) {
    RETURN_IF_ERROR(database_->Run(absl::StrCat("DELETE FROM ", table, " WHERE job = ?").c_str(), number));
  }
  RETURN_IF_ERROR(database_->Run("DELETE FROM jobs WHERE number = ?", number));
  return transaction.Commit();
}

absl::Status Store::ChangeNodes(const std::map<std::string, std::optional<KnownNode>>& changed) {
  const Operation operation(*this, __func__);
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(*database_));
  for (const auto& [name, known] : changed) {
    if (!known.has_value()) {
      RETURN_IF_ERROR(database_->Run("DELETE FROM nodes WHERE name = ?", name));
      continue;
    }
    ASSIGN_OR_RETURN(const std::string bytes, ToRow(known->node));
    RETURN_IF_ERROR(database_->Run("REPLACE INTO nodes (name, lost_at_seconds, message) VALUES (?, ?, ?)",
                                   name, static_cast<int64_t>(known->lost_at_seconds), Blob{bytes}));
  }
  return transaction.Commit();
}

absl::StatusOr<std::vector<Store::KnownNode>> Store::ListNodes() {
  const Operation operation(*this, __func__);
  ASSIGN_OR_RETURN(Statement rows,
                   database_->Query("SELECT message, name, lost_at_seconds FROM nodes ORDER BY name"));
  std::vector<KnownNode> nodes;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, rows.Step());
    if (!row) return nodes;
    KnownNode known;
    ASSIGN_OR_RETURN(known.node, FromRow<v1::Node>(*database_, rows));
    known.node.set_name(rows.Binary(1));
    known.lost_at_seconds = static_cast<double>(rows.Integer(2));
    nodes.push_back(std::move(known));
  }
}

absl::Status Store::PutDrainedNode(const std::string& name) {
  const Operation operation(*this, __func__);
  return database_->Run("REPLACE INTO drained_nodes (name) VALUES (?)", name);
}

absl::Status Store::DeleteDrainedNode(const std::string& name) {
  const Operation operation(*this, __func__);
  return database_->Run("DELETE FROM drained_nodes WHERE name = ?", name);
}

absl::StatusOr<std::vector<std::string>> Store::ListDrainedNodes() {
  const Operation operation(*this, __func__);
  return TextsOf(database_->Query("SELECT name FROM drained_nodes ORDER BY name"));
}

absl::StatusOr<uint64_t> Store::NextAttempt() {
  const Operation operation(*this, __func__);
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(*database_));
  ASSIGN_OR_RETURN(const int64_t attempt, NextOf("attempts"));
  RETURN_IF_ERROR(transaction.Commit());
  return static_cast<uint64_t>(attempt);
}

}  // namespace medley
