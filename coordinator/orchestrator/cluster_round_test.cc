#include "coordinator/orchestrator/cluster_round.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

NodeSnapshot NodeWith(const std::string& name, int devices) {
  NodeSnapshot node;
  node.description.name = name;
  node.description.protects_messages = true;
  node.alive = true;
  for (int i = 0; i < devices; ++i) {
    ClusterDevice& device = node.description.devices.emplace_back();
    device.description.name = std::to_string(i);
  }
  return node;
}

TEST_CASE("devices are sorted by what is asked of them") {
  NodeSnapshot mixed = NodeWith("mixed", 2), dead = NodeWith("dead", 1), old = NodeWith("old", 1);
  mixed.description.devices[1].emulated = true;
  mixed.jobs["0"] = "job-1";
  dead.alive = false;
  dead.jobs["0"] = "job-1";
  old.description.protects_messages = false;
  const ClusterRound round = LookAround({mixed, dead, old});
  using Names = std::set<std::string>;
  CHECK(round.live == Names{"mixed/0", "mixed/1", "old/0"});
  CHECK(round.emulated == Names{"mixed/1"});
  CHECK(round.unprotecting == Names{"old/0"});
  CHECK(round.holders == std::map<std::string, std::string>{{"dead/0", "job-1"}, {"mixed/0", "job-1"}});
  CHECK(round.users == Names{"job-1"});
  CHECK(round.nodes.size() == 3);
  CHECK(!round.profiles.has_value());
}

}  // namespace
}  // namespace medley
