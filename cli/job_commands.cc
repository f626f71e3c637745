#include "cli/job_commands.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/coordinator_client.h"
#include "cli/interrupts.h"
#include "cli/patient_call.h"
#include "cli/progress.h"
#include "cli/terminal.h"
#include "cli/text_table.h"
#include "cli/waiting_line.h"
#include "cli/watch.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"
#include "runtime/wire/json_message.h"
#include "runtime/wire/model_flops.h"

namespace medley {
namespace {

// What the coordinator gives of lists unless it is asked for more, and the most that it can be asked for.
constexpr int kUsualJobs = 100, kUsualLogLines = 1000;
constexpr uint32_t kMostLogLines = 100000;
constexpr absl::Duration kBetweenLooks = absl::Seconds(1);
constexpr absl::Duration kBetweenLooksAtAnEnd = absl::Milliseconds(50);

absl::Status ShowJob(const Connection& connection, const absl::StatusOr<v1::Job>& job) {
  return Show(connection, job, [&](const v1::Job& reply) { return FormatJob(reply, connection.columns); });
}

// Calls `look` every second until it says that there is no more to come; an interrupt ends what it asks by the handle. A
// coordinator that goes away, or does not answer in time, after the first look is asked again, an hour at most.
absl::Status LookAgainAndAgain(const Connection& connection,
                               const std::function<absl::StatusOr<bool>(CallHandle&)>& look) {
  CallHandle handle;
  const Interrupter interrupter([&] { handle.Cancel(); });
  AwayNotice notice;
  absl::Time away_since = absl::InfiniteFuture();
  for (bool first = true;; first = false) {
    const absl::StatusOr<bool> ended = look(handle);
    std::fflush(stdout);
    if (ended.ok()) {
      if (away_since != absl::InfiniteFuture()) notice.SayBack(Now() - away_since);
      away_since = absl::InfiniteFuture();
      if (*ended) return absl::OkStatus();
    } else if (interrupter.interrupted()) {
      return absl::CancelledError("");
    } else {
      const bool is_away = absl::IsUnavailable(ended.status()) || absl::IsDeadlineExceeded(ended.status());
      if (first || !is_away) return ended.status();
      notice.SayAway(std::string(ended.status().message()));
      away_since = std::min(away_since, Now());
      if (Now() - away_since > kWatchPatience) return ended.status();
    }
    if (!interrupter.Sleep(kBetweenLooks)) return absl::CancelledError("");
  }
}

// A text as a display if there is a terminal, otherwise again where it has changed.
class Repeated {
 public:
  explicit Repeated(const Connection& connection) : connection_(connection) {}
  void Show(const std::string& text) {
    if (connection_.columns > 0 && connection_.output == Output::kText) {
      std::vector<std::string> lines = absl::StrSplit(text, '\n');
      lines.pop_back();
      for (std::string& line : lines) line = CutToWidth(line, connection_.columns);
      display_.Draw(lines);
    } else if (text != last_) {
      Print(text);
    }
    last_ = text;
  }

 private:
  const Connection& connection_;
  LiveDisplay display_;
  std::string last_;
};

// What a job's devices do at most, asked of the coordinator once an attempt.
class PeakOfJob {
 public:
  // 0: nothing is known, or not to this client.
  double Of(CoordinatorClient& client, const v1::Job& job) {
    if (ModelFlopsPerSecond(job) <= 0) return 0;
    if (attempt_ == job.attempt()) return flops_per_second_;
    attempt_ = job.attempt();
    flops_per_second_ = 0;
    const absl::StatusOr<v1::ListNodesResponse> nodes = client.ListNodes();
    if (nodes.ok())
      flops_per_second_ = PeakFlopsPerSecond(job, {nodes->profiles().begin(), nodes->profiles().end()});
    return flops_per_second_;
  }

 private:
  std::optional<uint32_t> attempt_;
  double flops_per_second_ = 0;
};

absl::StatusOr<std::string> StatusText(CoordinatorClient& client, const Connection& connection,
                                       const StatusCommand& command, CallHandle* handle, PeakOfJob& peak,
                                       bool& ended) {
  const bool json = connection.output == Output::kJson;
  if (command.job_id.empty()) {
    ASSIGN_OR_RETURN(const v1::ListJobsResponse jobs, client.ListJobs(command.limit, handle));
    if (command.limit == 0 && jobs.jobs_size() == kUsualJobs && !command.watch) {
      Note(connection, absl::StrCat("these are the newest ", kUsualJobs, " jobs; -n N shows more"));
    }
    return json ? JsonLine(jobs) : FormatJobs(jobs, connection.columns);
  }
  ASSIGN_OR_RETURN(const v1::Job job, client.GetJob(command.job_id, handle));
  ended = HasEnded(job.state());
  return json ? JsonLine(job) : FormatJob(job, connection.columns, peak.Of(client, job));
}

// After the newest line of `logs`; 0 if there is none.
uint64_t NewestLine(const v1::ListLogsResponse& logs) {
  uint64_t newest = 0;
  for (const v1::LogLine& line : logs.lines()) newest = std::max(newest, line.number());
  return newest;
}

absl::Status FollowLogs(CoordinatorClient& client, const Connection& connection,
                        v1::ListLogsRequest request) {
  bool first = true;
  return LookAgainAndAgain(connection, [&](CallHandle& handle) -> absl::StatusOr<bool> {
    // Before the lines: those of the end are there, then.
    ASSIGN_OR_RETURN(const v1::Job job, client.GetJob(request.job_id(), &handle));
    ASSIGN_OR_RETURN(const v1::ListLogsResponse logs, client.ListLogs(request, &handle));
    if (first || !logs.lines().empty())
      RETURN_IF_ERROR(Show<v1::ListLogsResponse>(connection, logs, FormatLogs));
    first = false;
    request.set_after_line(std::max(request.after_line(), NewestLine(logs)));
    request.set_limit(kMostLogLines);
    return HasEnded(job.state());
  });
}

// Steps as they come, a batch a call.
class StepPrinter {
 public:
  explicit StepPrinter(const Connection& connection) : connection_(connection) {}

  void Show(const v1::JobUpdate& update) {
    v1::ListStepsResponse rows;
    *rows.mutable_steps() = update.steps();
    *rows.mutable_validations() = update.validations();
    DropDiscarded(rows);
    if (connection_.output == Output::kJson) {
      if (!rows.steps().empty() || !rows.validations().empty()) Print(JsonLine(rows));
    } else if (first_) {
      Print(FormatSteps(v1::ListStepsResponse(), connection_.columns));
    }
    first_ = false;
    if (connection_.output == Output::kText) {
      Print(FormatMoreSteps(rows));
      // Their steps came before.
      for (const v1::ValidationMetrics& validation : rows.validations()) {
        if (rows.steps().empty() || validation.step() < rows.steps(0).step()) {
          std::printf("validation after step %u: %.6f\n", validation.step(), validation.loss());
        }
      }
    }
    std::fflush(stdout);
  }

 private:
  const Connection& connection_;
  bool first_ = true;
};

// The step before the first of those that are asked for; without any, the one where the job is.
absl::StatusOr<uint32_t> StepBefore(CoordinatorClient& client, const v1::ListStepsRequest& request,
                                    CallHandle& handle) {
  ASSIGN_OR_RETURN(v1::ListStepsResponse steps, client.ListSteps(request, &handle));
  DropDiscarded(steps);
  if (!steps.steps().empty()) return steps.steps(0).step() - 1;
  ASSIGN_OR_RETURN(const v1::Job job, client.GetJob(request.job_id(), &handle));
  return job.last_step().step();
}

// Steps after `after_step` until the job has ended.
absl::Status FollowSteps(CoordinatorClient& client, const Connection& connection, const std::string& job_id,
                         uint32_t after_step) {
  StepPrinter printer(connection);
  AwayNotice notice;
  return FollowJob(client, job_id, after_step,
                   {.on_update = [&](const v1::JobUpdate& update) { printer.Show(update); },
                    .on_away = [&](const std::string& why, absl::Duration) { notice.SayAway(why); },
                    .on_back = [&](absl::Duration away) { notice.SayBack(away); }})
      .status();
}

}  // namespace

absl::Status RunStatus(const Connection& connection, const StatusCommand& command) {
  if (command.watch) BlockInterrupts();
  CoordinatorClient client = Connect(connection);
  PeakOfJob peak;
  bool ended = false;
  Repeated repeated(connection);
  const auto look = [&](CallHandle& handle) -> absl::StatusOr<bool> {
    ASSIGN_OR_RETURN(const std::string text, StatusText(client, connection, command, &handle, peak, ended));
    repeated.Show(text);
    return ended;
  };
  if (command.watch) return LookAgainAndAgain(connection, look);
  ASSIGN_OR_RETURN(const std::string text, StatusText(client, connection, command, nullptr, peak, ended));
  Print(text);
  return absl::OkStatus();
}

absl::Status RunWatch(const Connection& connection, const std::string& job_id) {
  BlockInterrupts();
  CoordinatorClient client = Connect(connection);
  ASSIGN_OR_RETURN(const v1::Job job, WatchJob(client, job_id, connection.output));
  if (job.state() == v1::JOB_STATE_DONE) return absl::OkStatus();
  const char* what = job.state() == v1::JOB_STATE_CANCELLED ? " was cancelled" : " failed";
  return absl::AbortedError(absl::StrCat("job ", job.id(), what, job.state_reason().empty() ? "" : ": ",
                                         Printable(job.state_reason())));
}

absl::Status RunLogs(const Connection& connection, const ListingCommand& command) {
  v1::ListLogsRequest request;
  request.set_job_id(command.job_id);
  request.set_limit(command.limit);
  request.set_since_seconds(command.since_seconds);
  request.set_source(command.source);
  if (command.follow) BlockInterrupts();
  CoordinatorClient client = Connect(connection);
  if (command.follow) return FollowLogs(client, connection, request);
  const absl::StatusOr<v1::ListLogsResponse> logs = client.ListLogs(request);
  if (logs.ok() && command.limit == 0 && logs->lines_size() == kUsualLogLines) {
    Note(connection, absl::StrCat("these are the newest ", kUsualLogLines, " lines; -n N shows more"));
  }
  // A misspelt name looks like a device that has nothing to say.
  if (logs.ok() && logs->lines().empty() && !command.source.empty()) {
    Note(connection, absl::StrCat("of \"", command.source,
                                  "\" there are no lines; --device takes coordinator, or a node ",
                                  "or NODE/DEVICE as `medley nodes` names them"));
  }
  return Show(connection, logs, FormatLogs);
}

absl::Status RunSteps(const Connection& connection, const ListingCommand& command) {
  v1::ListStepsRequest request;
  request.set_job_id(command.job_id);
  request.set_limit(command.limit);
  request.set_since_seconds(command.since_seconds);
  if (!command.follow) {
    absl::StatusOr<v1::ListStepsResponse> steps = Connect(connection).ListSteps(request);
    if (steps.ok()) DropDiscarded(*steps);
    return Show(connection, steps,
                [&](const v1::ListStepsResponse& reply) { return FormatSteps(reply, connection.columns); });
  }
  BlockInterrupts();
  CoordinatorClient client = Connect(connection);
  absl::StatusOr<uint32_t> after = 0;
  if (command.limit != 0 || command.since_seconds != 0) {
    after = CallPatiently("asking for the newest steps", "interrupted",
                          [&](CallHandle& handle) { return StepBefore(client, request, handle); });
  }
  RETURN_IF_ERROR(after.status());
  return FollowSteps(client, connection, command.job_id, *after);
}

absl::Status RunCancel(const Connection& connection, const std::string& job_id, CancelWhen when) {
  BlockInterrupts();
  CoordinatorClient client = Connect(connection);
  v1::CancelJobRequest request;
  request.set_job_id(job_id);
  request.set_after_checkpoint(when == CancelWhen::kAfterCheckpoint);
  absl::StatusOr<v1::Job> job;
  {
    CallHandle handle;
    WaitingLine line(absl::StrCat("job ", job_id, " is being cancelled"));
    const Interrupter interrupter([&] { handle.Cancel(); }, [&] { line.Tick(); });
    job = client.Cancel(request, handle);
    if (!job.ok() && interrupter.interrupted())
      return absl::CancelledError(
          absl::StrCat("interrupted; the job may be cancelled all the same (medley status ", job_id, ")"));
    RETURN_IF_ERROR(job.status());
    const absl::Time deadline = Now() + connection.timeout.value_or(kUsualTimeout);
    while (!HasEnded(job->state()) && Now() < deadline && interrupter.Sleep(kBetweenLooksAtAnEnd)) {
      const absl::StatusOr<v1::Job> now = client.GetJob(job_id, &handle);
      if (!now.ok()) break;
      job = now;
    }
  }
  RETURN_IF_ERROR(ShowJob(connection, job));
  if (!HasEnded(job->state())) {
    Note(connection, absl::StrCat("job ", job_id, " is being cancelled",
                                  when == CancelWhen::kAfterCheckpoint ? " after a checkpoint" : "",
                                  "; medley watch ", job_id, " shows its end"));
  }
  return absl::OkStatus();
}

absl::Status RunResume(const Connection& connection, const std::string& job_id) {
  return ShowJob(connection, Connect(connection).Resume(job_id));
}

absl::Status RunReplan(const Connection& connection, const std::string& job_id, ReplanWhen when) {
  BlockInterrupts();
  CoordinatorClient client = Connect(connection);
  v1::ReplanJobRequest request;
  request.set_job_id(job_id);
  request.set_force(when == ReplanWhen::kAlways);
  const absl::StatusOr<v1::ReplanJobResponse> reply = CallPatiently(
      "planning anew", "interrupted", [&](CallHandle& handle) { return client.Replan(request, handle); });
  return Show(connection, reply,
              [&](const v1::ReplanJobResponse& r) { return FormatReplan(r, connection.columns); });
}

absl::Status RunHold(const Connection& connection, const std::string& job_id) {
  v1::HoldJobRequest request;
  request.set_job_id(job_id);
  request.set_hold(true);
  return ShowJob(connection, Connect(connection).Hold(request));
}

absl::Status RunRelease(const Connection& connection, const std::string& job_id) {
  v1::HoldJobRequest request;
  request.set_job_id(job_id);
  return ShowJob(connection, Connect(connection).Hold(request));
}

absl::Status RunDelete(const Connection& connection, const std::string& job_id) {
  RETURN_IF_ERROR(Connect(connection).Delete(job_id));
  Print(connection.output == Output::kJson
            ? absl::StrCat("{\"deleted\": ", JsonString(job_id), "}\n")
            : absl::StrCat("job ", job_id, " is deleted; its checkpoints stay\n"));
  return absl::OkStatus();
}

}  // namespace medley
