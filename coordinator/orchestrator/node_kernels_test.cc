#include "coordinator/orchestrator/node_kernels.h"

#include <catch2/catch.hpp>

#include "coordinator/orchestrator/fake_agents.h"
#include "runtime/base/clock.h"

namespace medley {
namespace {

// "a" and "c" are alive, "b" is lost.
std::vector<v1::Node> ThreeNodes() {
  std::vector<v1::Node> nodes;
  for (const char* name : {"a", "b", "c"}) {
    nodes.push_back(FakeNode(name).node());
    nodes.back().set_alive(std::string(name) != "b");
    if (!nodes.back().alive()) nodes.back().set_status("lease ended");
  }
  return nodes;
}

absl::Time Soon() { return Now() + absl::Seconds(20); }

TEST_CASE("kernels are asked of the one node that is named") {
  FakeAgents agents;
  const auto found = ListKernels(ThreeNodes(), "c", agents, Soon());
  REQUIRE(found.ok());
  REQUIRE(found->nodes_size() == 1);
  CHECK(found->nodes(0).node() == "c");
  CHECK(found->nodes(0).devices(0).description() == "fake at c:1");
}

TEST_CASE("without a name all live nodes are asked; one that does not answer says so in its place") {
  FakeAgents agents;
  agents.TakeDown("c:1");
  const auto found = ListKernels(ThreeNodes(), "", agents, Soon());
  REQUIRE(found.ok());
  REQUIRE(found->nodes_size() == 2);
  CHECK(found->nodes(0).node() == "a");
  CHECK(found->nodes(0).failure() == "");
  CHECK(found->nodes(0).devices_size() == 1);
  CHECK(found->nodes(1).node() == "c");
  CHECK(found->nodes(1).failure() == "the agent of node c at c:1 does not answer: connection refused");
  CHECK(found->nodes(1).devices_size() == 0);
}

TEST_CASE("a node that cannot be asked is an error if it is named") {
  FakeAgents agents;
  agents.TakeDown("c:1");
  CHECK(ListKernels(ThreeNodes(), "d", agents, Soon()).status() ==
        absl::NotFoundError("no node is named d; there are: a, b, c"));
  CHECK(ListKernels({}, "d", agents, Soon()).status() ==
        absl::NotFoundError("no node is named d; there are none"));
  CHECK(ListKernels(ThreeNodes(), "b", agents, Soon()).status() ==
        absl::UnavailableError("node b is lost: lease ended"));
  CHECK(ListKernels(ThreeNodes(), "c", agents, Soon()).status() ==
        absl::UnavailableError("the agent of node c at c:1 does not answer: connection refused"));
  CHECK(ListKernels({}, "", agents, Soon())->nodes_size() == 0);
}

}  // namespace
}  // namespace medley
