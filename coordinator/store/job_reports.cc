// What jobs report: steps, validations, log lines and traces.
#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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

constexpr int kTraces = 16;  // of a job

}  // namespace

absl::Status Store::AppendSteps(const std::string& job_id, absl::Span<const v1::StepMetrics> steps) {
  const Operation operation(*this, __func__);
  ASSIGN_OR_RETURN(const int64_t job, NumberOf(job_id));
  return Append(*database_, "steps", job, steps);
}

absl::Status Store::AppendValidations(const std::string& job_id,
                                      absl::Span<const v1::ValidationMetrics> validations) {
  const Operation operation(*this, __func__);
  ASSIGN_OR_RETURN(const int64_t job, NumberOf(job_id));
  return Append(*database_, "validations", job, validations);
}

absl::Status Store::DropStepsAfter(const std::string& job_id, uint32_t step) {
  const Operation operation(*this, __func__);
  ASSIGN_OR_RETURN(const int64_t job, NumberOf(job_id));
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(*database_));
  RETURN_IF_ERROR(database_->Run("DELETE FROM steps WHERE job = ? AND step > ?", job, step));
  RETURN_IF_ERROR(database_->Run("DELETE FROM validations WHERE job = ? AND step > ?", job, step));
  return transaction.Commit();
}

absl::StatusOr<std::vector<v1::StepMetrics>> Store::ListSteps(const std::string& job_id, uint32_t after_step,
                                                              int limit) {
  const Operation operation(*this, __func__);
  ASSIGN_OR_RETURN(const int64_t job, NumberOf(job_id));
  if (limit > 0) {
    ASSIGN_OR_RETURN(std::vector<v1::StepMetrics> newest_first,
                     AllOf<v1::StepMetrics>(
                         *database_, database_->Query("SELECT message FROM steps WHERE job = ? AND step > ? "
                                                      "ORDER BY step DESC LIMIT ?",
                                                      job, after_step, limit)));
    std::reverse(newest_first.begin(), newest_first.end());
    return newest_first;
  }
  return AllOf<v1::StepMetrics>(*database_, RowsAfter(*database_, "steps", job, after_step));
}

absl::StatusOr<std::vector<v1::StepMetrics>> Store::NextSteps(const std::string& job_id, uint32_t after_step,
                                                              int most) {
  const Operation operation(*this, __func__);
  ASSIGN_OR_RETURN(const int64_t job, NumberOf(job_id));
  return AllOf<v1::StepMetrics>(
      *database_,
      database_->Query("SELECT message FROM steps WHERE job = ? AND step > ? ORDER BY step LIMIT ?", job,
                       after_step, most));
}

absl::StatusOr<std::vector<v1::ValidationMetrics>> Store::ListValidations(const std::string& job_id,
                                                                          uint32_t after_step) {
  const Operation operation(*this, __func__);
  ASSIGN_OR_RETURN(const int64_t job, NumberOf(job_id));
  return AllOf<v1::ValidationMetrics>(*database_, RowsAfter(*database_, "validations", job, after_step));
}

absl::Status Store::AppendLogs(const std::string& job_id, absl::Span<const v1::LogLine> lines) {
  const Operation operation(*this, __func__);
  ASSIGN_OR_RETURN(const int64_t job, NumberOf(job_id));
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(*database_));
  int64_t last = 0;
  {
    ASSIGN_OR_RETURN(Statement newest, database_->Query("SELECT max(number) FROM logs WHERE job = ?", job));
    RETURN_IF_ERROR(newest.Step().status());
    last = newest.Integer(0);  // NULL, and so 0, if there is none
  }
  for (v1::LogLine line : lines) {
    line.set_number(static_cast<uint64_t>(++last));
    ASSIGN_OR_RETURN(const std::string bytes, ToRow(line));
    RETURN_IF_ERROR(
        database_->Run("INSERT INTO logs (job, number, message) VALUES (?, ?, ?)", job, last, Blob{bytes}));
  }
  RETURN_IF_ERROR(database_->Run("DELETE FROM logs WHERE job = ? AND number <= ?", job,
                                 last - options_.log_lines_per_job));
  return transaction.Commit();
}

absl::StatusOr<std::vector<v1::LogLine>> Store::ListLogs(const std::string& job_id, int limit,
                                                         uint64_t after_line) {
  const Operation operation(*this, __func__);
  ASSIGN_OR_RETURN(const int64_t job, NumberOf(job_id));
  ASSIGN_OR_RETURN(
      std::vector<v1::LogLine> newest_first,
      AllOf<v1::LogLine>(
          *database_,
          database_->Query(
              "SELECT message FROM logs WHERE job = ? AND number > ? ORDER BY number DESC LIMIT ?", job,
              static_cast<int64_t>(std::min<uint64_t>(after_line, INT64_MAX)), std::max(limit, 0))));
  std::reverse(newest_first.begin(), newest_first.end());
  return newest_first;
}

absl::Status Store::PutPlanGrounds(const v1::PlanGrounds& grounds) {
  ASSIGN_OR_RETURN(const std::string bytes, ToRow(grounds));
  const Operation operation(*this, __func__);
  ASSIGN_OR_RETURN(const int64_t job, NumberOf(grounds.job_id()));
  return database_->Run("REPLACE INTO plan_grounds (job, message) VALUES (?, ?)", job, Blob{bytes});
}

absl::StatusOr<v1::PlanGrounds> Store::GetPlanGrounds(const std::string& job_id) {
  const Operation operation(*this, __func__);
  ASSIGN_OR_RETURN(const int64_t job, NumberOf(job_id));
  ASSIGN_OR_RETURN(const std::optional<v1::PlanGrounds> grounds,
                   FirstOf<v1::PlanGrounds>(
                       *database_, database_->Query("SELECT message FROM plan_grounds WHERE job = ?", job)));
  if (!grounds.has_value())
    return absl::NotFoundError(absl::StrCat("what job ", job_id, " was planned with is not known"));
  return *grounds;
}

absl::Status Store::PutTrace(const v1::Trace& trace) {
  ASSIGN_OR_RETURN(const std::string bytes, ToRow(trace));
  const Operation operation(*this, __func__);
  ASSIGN_OR_RETURN(const int64_t job, NumberOf(trace.job_id()));
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(*database_));
  RETURN_IF_ERROR(database_->Run("REPLACE INTO traces (job, step, message) VALUES (?, ?, ?)", job,
                                 trace.step(), Blob{bytes}));
  RETURN_IF_ERROR(
      database_->Run("DELETE FROM traces WHERE job = ? AND step NOT IN "
                     "(SELECT step FROM traces WHERE job = ? ORDER BY rowid DESC LIMIT ?)",
                     job, job, kTraces));
  return transaction.Commit();
}

absl::StatusOr<v1::Trace> Store::GetTrace(const std::string& job_id, uint32_t step) {
  const Operation operation(*this, __func__);
  ASSIGN_OR_RETURN(const int64_t job, NumberOf(job_id));
  // The newest came last: a step that ran again is newer than one after it. Traces are large, so only the one that is asked for is read.
  ASSIGN_OR_RETURN(
      std::optional<v1::Trace> trace,
      FirstOf<v1::Trace>(
          *database_,
          step == 0
              ? database_->Query(
                    "SELECT message FROM traces WHERE rowid = (SELECT max(rowid) FROM traces WHERE job = ?)",
                    job)
              : database_->Query("SELECT message FROM traces WHERE job = ? AND step = ?", job, step)));
  if (trace.has_value()) return *std::move(trace);
  ASSIGN_OR_RETURN(Statement rows,
                   database_->Query("SELECT step FROM traces WHERE job = ? ORDER BY step", job));
  std::vector<int64_t> steps;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, rows.Step());
    if (!row) break;
    steps.push_back(rows.Integer(0));
  }
  if (steps.empty()) return absl::NotFoundError(absl::StrCat("no step of job ", job_id, " was traced yet"));
  return absl::NotFoundError(absl::StrCat("step: ", step, " of job ", job_id,
                                          " has no trace; there are those of steps ",
                                          absl::StrJoin(steps, ", ")));
}

}  // namespace medley
