#include "coordinator/orchestrator/trace_request.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/orchestrator/ask_nodes.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr absl::Duration kAnswerTime = absl::Seconds(30);
constexpr absl::Duration kLookAroundEvery = absl::Milliseconds(250);
// Each try begins twice as far ahead as the one before: the last one some thousands of steps.
constexpr int kTries = 13;
constexpr size_t kPartBytes = size_t{1} << 20;

struct Answers {
  uint32_t current_step = 0;  // of the rank that is furthest
  bool accepted = true;       // by all
};

// Steps 0: none any more.
absl::StatusOr<Answers> AskRanks(const v1::Job& job, AgentClient& agents, uint32_t first_step,
                                 uint32_t steps) {
  const absl::Time deadline = Now() + kAnswerTime;
  const std::vector<absl::StatusOr<v1::TraceTaskResponse>> answers = AskAtOnce<v1::TraceTaskResponse>(
      static_cast<size_t>(job.tasks_size()),
      [&](size_t rank, AgentClient::Answered<v1::TraceTaskResponse> answered) {
        const v1::LaunchedTask& task = job.tasks(static_cast<int>(rank));
        v1::TraceTaskRequest request;
        request.set_task_id(task.task_id());
        request.set_first_step(first_step);
        request.set_steps(steps);
        agents.TraceTask(task.agent_address(), request, deadline, std::move(answered));
      });
  Answers all;
  for (size_t rank = 0; rank < answers.size(); ++rank) {
    if (!answers[rank].ok())
      return absl::UnavailableError(absl::StrCat(job.tasks(static_cast<int>(rank)).device(),
                                                 " cannot be traced: ", answers[rank].status().message()));
    all.current_step = std::max(all.current_step, answers[rank]->current_step());
    all.accepted = all.accepted && answers[rank]->accepted();
  }
  return all;
}

// Which steps are traced; `live` has begun with them.
absl::StatusOr<v1::TraceStepsUpdate> AgreeOnSteps(const v1::Job& job, uint32_t steps, AgentClient& agents,
                                                  LiveTrace& live) {
  ASSIGN_OR_RETURN(Answers answers, AskRanks(job, agents, 0, 0));
  const uint32_t job_steps = job.spec().steps();
  uint32_t ahead = 1;
  for (int i = 0; i < kTries; ++i, ahead *= 2) {
    v1::TraceStepsUpdate agreed;
    agreed.set_first_step(answers.current_step + ahead);
    if (agreed.first_step() > job_steps)
      return absl::FailedPreconditionError(absl::StrCat("job ", job.id(), " ends with step ", job_steps,
                                                        ", too soon to be traced: it is at step ",
                                                        answers.current_step));
    agreed.set_steps(std::min(steps, job_steps - agreed.first_step() + 1));
    live.Begin(agreed.first_step(), agreed.steps());
    ASSIGN_OR_RETURN(answers, AskRanks(job, agents, agreed.first_step(), agreed.steps()));
    if (answers.accepted) return agreed;
  }
  return absl::UnavailableError(
      absl::StrCat("job ", job.id(), " gets on faster than its ranks can be told which steps to trace"));
}

absl::Status NobodyReads() { return absl::CancelledError("nobody waits for the trace any more"); }

// False: nobody reads any more.
bool SendInParts(LiveTrace::News news, const std::function<bool(const v1::TraceStepsUpdate&)>& update) {
  v1::TraceStepsUpdate part;
  part.set_lost_steps(news.lost_steps);
  if (!news.trace) return update(part);
  google::protobuf::RepeatedPtrField<v1::TraceLane> lanes;
  lanes.Swap(news.trace->mutable_lanes());
  *part.mutable_trace() = *std::move(news.trace);
  size_t bytes = 0;
  for (v1::TraceLane& lane : lanes) {
    const size_t lane_bytes = lane.ByteSizeLong();
    if (bytes > 0 && bytes + lane_bytes > kPartBytes) {
      if (!update(part)) return false;
      part.clear_lost_steps();
      part.mutable_trace()->clear_lanes();
      bytes = 0;
    }
    bytes += lane_bytes;
    *part.mutable_trace()->add_lanes() = std::move(lane);
  }
  return update(part);
}

absl::Status HandOn(LiveTrace& live, const std::function<bool(const v1::TraceStepsUpdate&)>& update,
                    const std::function<bool()>& cancelled) {
  while (true) {
    ASSIGN_OR_RETURN(LiveTrace::News news, live.Await(Now() + kLookAroundEvery));
    const bool is_done = news.done;
    if ((news.trace || news.lost_steps > 0) && !SendInParts(std::move(news), update)) return NobodyReads();
    if (is_done) return absl::OkStatus();
    if (cancelled()) return NobodyReads();
  }
}

}  // namespace

absl::Status ServeTrace(const v1::Job& job, uint32_t steps, AgentClient& agents, LiveTrace& live,
                        const std::function<bool(const v1::TraceStepsUpdate&)>& update,
                        const std::function<bool()>& cancelled) {
  const absl::StatusOr<v1::TraceStepsUpdate> agreed = AgreeOnSteps(job, steps, agents, live);
  absl::Status status = agreed.status();
  if (agreed.ok()) status = update(*agreed) ? HandOn(live, update, cancelled) : NobodyReads();
  // Of an attempt that has ended nobody answers.
  if (!status.ok()) (void)AskRanks(job, agents, 0, 0);
  return status;
}

}  // namespace medley
