#include "coordinator/orchestrator/node_checks.h"

#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/orchestrator/ask_nodes.h"
#include "runtime/base/unix_time.h"
#include "runtime/base/version.h"

namespace medley {
namespace {

// Apart by more, traces of a step of several nodes cannot be laid over each other; by much more, certificates fail.
constexpr double kClockSeconds = 0.1, kBadClockSeconds = 60;

void Compare(double answered_at_seconds, v1::NodeCheck& check) {
  const double ahead = check.clock_seconds() - answered_at_seconds;
  v1::Finding& clock = *check.add_findings();
  clock.set_subject("clock");
  clock.set_level(std::abs(ahead) < kClockSeconds      ? v1::FINDING_LEVEL_GOOD
                  : std::abs(ahead) < kBadClockSeconds ? v1::FINDING_LEVEL_WARNING
                                                       : v1::FINDING_LEVEL_ERROR);
  clock.set_text(
      absl::StrFormat("%.3f s %s the coordinator's", std::abs(ahead), ahead < 0 ? "behind" : "ahead of"));
  if (clock.level() != v1::FINDING_LEVEL_GOOD) clock.mutable_text()->append("; does it keep time by NTP?");
  v1::Finding& version = *check.add_findings();
  version.set_subject("version");
  const bool same = check.medley_version() == kMedleyVersion;
  version.set_level(same ? v1::FINDING_LEVEL_GOOD : v1::FINDING_LEVEL_WARNING);
  version.set_text(same ? absl::StrCat("Medley ", kMedleyVersion)
                        : absl::StrCat("Medley ", check.medley_version(), ", and the coordinator is ",
                                       kMedleyVersion, ": upgrade the older one"));
}

}  // namespace

absl::StatusOr<v1::CheckNodesResponse> CheckNodes(const std::vector<v1::Node>& nodes,
                                                  const v1::CheckNodesRequest& request, AgentClient& agents,
                                                  absl::Time deadline) {
  for (int i = 0; i < request.directories_size(); ++i) {
    if (!absl::StartsWith(request.directories(i), "/"))
      return absl::InvalidArgumentError(
          absl::StrCat("directories[", i, "]: \"", request.directories(i),
                       "\" is not an absolute path; nodes look for it under the same path everywhere"));
  }
  v1::CheckNodeRequest check;
  *check.mutable_directories() = request.directories();
  return AskNodes<v1::CheckNodesResponse, v1::NodeCheck>(
      nodes, request.node(), [&](const std::string& address, AgentClient::Answered<v1::NodeCheck> answered) {
        agents.CheckNode(address, check, deadline,
                         [answered = std::move(answered)](absl::StatusOr<v1::NodeCheck> answer) {
                           // The agent looks at its clock last.
                           if (answer.ok()) Compare(UnixSecondsNow(), *answer);
                           answered(std::move(answer));
                         });
      });
}

absl::StatusOr<v1::GetStacksResponse> StacksOf(const v1::Job& job, AgentClient& agents, absl::Time deadline) {
  if (job.tasks().empty())
    return absl::FailedPreconditionError(absl::StrCat("job ", job.id(), " does not run"));
  const std::vector<absl::StatusOr<v1::DescribeStacksResponse>> answers =
      AskAtOnce<v1::DescribeStacksResponse>(
          static_cast<size_t>(job.tasks_size()),
          [&](size_t rank, AgentClient::Answered<v1::DescribeStacksResponse> answered) {
            const v1::LaunchedTask& task = job.tasks(static_cast<int>(rank));
            v1::DescribeStacksRequest request;
            request.set_task_id(task.task_id());
            agents.DescribeStacks(task.agent_address(), request, deadline, std::move(answered));
          });
  v1::GetStacksResponse response;
  for (size_t rank = 0; rank < answers.size(); ++rank) {
    v1::TaskStacks& stacks = *response.add_tasks();
    stacks.set_device(job.tasks(static_cast<int>(rank)).device());
    if (answers[rank].ok()) {
      stacks.set_text(answers[rank]->text());
    } else {
      stacks.set_failure(std::string(answers[rank].status().message()));
    }
  }
  return response;
}

}  // namespace medley
