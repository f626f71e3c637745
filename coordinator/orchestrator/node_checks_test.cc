#include "coordinator/orchestrator/node_checks.h"

#include <catch2/catch.hpp>

#include "coordinator/orchestrator/fake_agents.h"
#include "runtime/base/clock.h"
#include "runtime/base/version.h"

namespace medley {
namespace {

absl::Time Soon() { return Now() + absl::Seconds(20); }

std::vector<v1::Node> TwoNodes() {
  std::vector<v1::Node> nodes = {FakeNode("a").node(), FakeNode("b").node()};
  for (v1::Node& node : nodes) node.set_alive(true);
  return nodes;
}

TEST_CASE("what an agent finds is completed by its clock and its version; who does not answer says so") {
  FakeAgents agents;
  agents.TakeDown("b:1");
  v1::CheckNodesRequest request;
  request.add_directories("/data");
  const auto found = CheckNodes(TwoNodes(), request, agents, Soon());
  REQUIRE(found.ok());
  REQUIRE(found->nodes_size() == 2);
  const v1::NodeCheck& first = found->nodes(0);
  CHECK(first.node() == "a");
  REQUIRE(first.findings_size() == 3);
  CHECK(first.findings(0).subject() == "/data");
  CHECK(first.findings(1).subject() == "clock");
  CHECK(first.findings(1).level() == v1::FINDING_LEVEL_ERROR);
  CHECK(first.findings(1).text().find("s behind the coordinator's; does it keep time by NTP?") !=
        std::string::npos);
  CHECK(first.findings(2).text() ==
        std::string("Medley 0.1, and the coordinator is ") + kMedleyVersion + ": upgrade the older one");
  CHECK(found->nodes(1).failure().find("the agent of node b at b:1 does not answer") == 0);

  request.set_node("b");
  CHECK(absl::IsUnavailable(CheckNodes(TwoNodes(), request, agents, Soon()).status()));
  request.set_node("c");
  CHECK(CheckNodes(TwoNodes(), request, agents, Soon()).status() ==
        absl::NotFoundError("no node is named c; there are: a, b"));
}

TEST_CASE("a directory that is no absolute path is refused, not looked for where agents were started") {
  FakeAgents agents;
  v1::CheckNodesRequest request;
  request.add_directories("/data");
  request.add_directories("data");
  CHECK(CheckNodes(TwoNodes(), request, agents, Soon()).status() ==
        absl::InvalidArgumentError(
            "directories[1]: \"data\" is not an absolute path; nodes look for it under the "
            "same path everywhere"));
}

TEST_CASE("of a job that runs, each rank's threads are asked for") {
  FakeAgents agents;
  agents.TakeDown("b:1");
  v1::Job job;
  job.set_id("gpt-1");
  CHECK(StacksOf(job, agents, Soon()).status() == absl::FailedPreconditionError("job gpt-1 does not run"));
  for (const char* node : {"a", "b"}) {
    v1::LaunchedTask& task = *job.add_tasks();
    task.set_task_id(std::string("task of ") + node);
    task.set_device(std::string(node) + "/cpu0");
    task.set_agent_address(std::string(node) + ":1");
  }
  const auto stacks = StacksOf(job, agents, Soon());
  REQUIRE(stacks.ok());
  REQUIRE(stacks->tasks_size() == 2);
  CHECK(stacks->tasks(0).device() == "a/cpu0");
  CHECK(stacks->tasks(0).text() == "threads of task of a");
  CHECK(stacks->tasks(1).failure() == "connection refused");
}

}  // namespace
}  // namespace medley
