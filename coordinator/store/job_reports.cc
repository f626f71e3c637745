// What jobs report: steps, validations, log lines and traces.
#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "coordinator/store/message_rows.h"
#include "coordinator/store/store.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// `table` has the columns job, step and message.
template <typename Message>
absl::Status Append(Database& database, const std::string& table, int64_t job,
                    absl::Span<const Message> messages) {
  const std::string insert = absl::StrCat(
      "INSERT INTO ", table,
      " (job, step, message) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET message = excluded.message");
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database));
  for (const Message& message : messages) {
    ASSIGN_OR_RETURN(const std::string bytes, ToRow(message));
    RETURN_IF_ERROR(database.Run(insert.c_str(), job, message.step(), Blob{bytes}));
  }
  return transaction.Commit();
}

absl::StatusOr<Statement> RowsAfter(Database& database, const std::string& table, int64_t job,
                                    uint32_t after_step) {
  return database.Query(
      absl::StrCat("SELECT message FROM ", table, " WHERE job = ? AND step > ? ORDER BY step").c_str(), job,
      after_step);
}

}  // namespace

absl::Status Store::AppendSteps(const std::string& job_id, absl::Span<const v1::StepMetrics> steps) {
  const MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const int64_t job, NumberOf(job_id));
  return Append(*database_, "steps", job, steps);
}

absl::Status Store::AppendValidations(const std::string& job_id,
                                      absl::Span<const v1::ValidationMetrics> validations) {
  const MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const int64_t job, NumberOf(job_id));
  return Append(*database_, "validations", job, validations);
}

absl::StatusOr<std::vector<v1::StepMetrics>> Store::ListSteps(const std::string& job_id,
                                                              uint32_t after_step) {
  const MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const int64_t job, NumberOf(job_id));
  return AllOf<v1::StepMetrics>(*database_, RowsAfter(*database_, "steps", job, after_step));
}

absl::StatusOr<std::vector<v1::ValidationMetrics>> Store::ListValidations(const std::string& job_id,
                                                                          uint32_t after_step) {
  const MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const int64_t job, NumberOf(job_id));
  return AllOf<v1::ValidationMetrics>(*database_, RowsAfter(*database_, "validations", job, after_step));
}

absl::Status Store::AppendLogs(const std::string& job_id, absl::Span<const v1::LogLine> lines) {
  const MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const int64_t job, NumberOf(job_id));
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(*database_));
  int64_t last = 0;
  {
    ASSIGN_OR_RETURN(Statement newest, database_->Query("SELECT max(number) FROM logs WHERE job = ?", job));
    RETURN_IF_ERROR(newest.Step().status());
    last = newest.Integer(0);  // NULL, and so 0, if there is none
  }
  for (const v1::LogLine& line : lines) {
    ASSIGN_OR_RETURN(const std::string bytes, ToRow(line));
    RETURN_IF_ERROR(
        database_->Run("INSERT INTO logs (job, number, message) VALUES (?, ?, ?)", job, ++last, Blob{bytes}));
  }
  RETURN_IF_ERROR(database_->Run("DELETE FROM logs WHERE job = ? AND number <= ?", job,
                                 last - options_.log_lines_per_job));
  return transaction.Commit();
}

absl::StatusOr<std::vector<v1::LogLine>> Store::ListLogs(const std::string& job_id, int limit) {
  const MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const int64_t job, NumberOf(job_id));
  ASSIGN_OR_RETURN(
      std::vector<v1::LogLine> newest_first,
      AllOf<v1::LogLine>(
          *database_, database_->Query("SELECT message FROM logs WHERE job = ? ORDER BY number DESC LIMIT ?",
                                       job, std::max(limit, 0))));
  std::reverse(newest_first.begin(), newest_first.end());
  return newest_first;
}

absl::Status Store::PutTrace(const v1::Trace& trace) {
  ASSIGN_OR_RETURN(const std::string bytes, ToRow(trace));
  const MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const int64_t job, NumberOf(trace.job_id()));
  return database_->Run("REPLACE INTO traces (job, message) VALUES (?, ?)", job, Blob{bytes});
}

absl::StatusOr<v1::Trace> Store::GetTrace(const std::string& job_id) {
  const MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const int64_t job, NumberOf(job_id));
  ASSIGN_OR_RETURN(
      std::optional<v1::Trace> trace,
      FirstOf<v1::Trace>(*database_, database_->Query("SELECT message FROM traces WHERE job = ?", job)));
  if (!trace.has_value())
    return absl::NotFoundError(absl::StrCat("no step of job ", job_id, " was traced yet"));
  return *std::move(trace);
}

}  // namespace medley
