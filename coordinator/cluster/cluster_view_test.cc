#include "coordinator/cluster/cluster_view.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>
#include <random>
#include <set>

namespace medley {
namespace {

using Names = std::vector<std::string>;

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

NodeDescription NodeWith(const std::string& name, uint64_t incarnation, const Names& devices) {
  NodeDescription node{name, name + ":7000", "host-" + name, incarnation, {}, GiB(3)};
  for (const std::string& device : devices) {
    node.devices.push_back({{device, "cpu", "avx2", {0}, GiB(1)}, "kind of " + device});
  }
  return node;
}

ClusterView TwoNodes() {
  ClusterView view({.lease = absl::Seconds(10), .forget_after = absl::Seconds(100)});
  REQUIRE(view.Register(NodeWith("b", 1, {"cpu1", "cpu0"}), At(0)).ok());
  REQUIRE(view.Register(NodeWith("a", 1, {"cpu0"}), At(0)).ok());
  return view;
}

TEST_CASE("devices are free until a job has them and again once it releases them") {
  ClusterView view = TwoNodes();
  CHECK(view.FreeDevices() == Names{"a/cpu0", "b/cpu0", "b/cpu1"});
  REQUIRE(view.Occupy(Names{"b/cpu0", "a/cpu0"}, "job-1").ok());
  REQUIRE(view.Occupy(Names{"b/cpu0"}, "job-1").ok());
  CHECK(view.FreeDevices() == Names{"b/cpu1"});
  view.Release("job-2");
  CHECK(view.FreeDevices() == Names{"b/cpu1"});
  view.Release("job-1");
  CHECK(view.FreeDevices() == Names{"a/cpu0", "b/cpu0", "b/cpu1"});
}

TEST_CASE("a node is alive in the life that holds its lease, until that ends") {
  ClusterView view = TwoNodes();
  CHECK(view.IsAlive("a", 1));
  CHECK_FALSE(view.IsAlive("a", 2));
  CHECK_FALSE(view.IsAlive("c", 1));
  REQUIRE(view.Register(NodeWith("a", 2, {"cpu0"}), At(5)).ok());
  CHECK_FALSE(view.IsAlive("a", 1));
  CHECK(view.IsAlive("a", 2));
  view.Expire(At(10));
  CHECK_FALSE(view.IsAlive("b", 1));
  CHECK(view.IsAlive("a", 2));
}

TEST_CASE("a job gets all the devices it asks for or none") {
  ClusterView view = TwoNodes();
  REQUIRE(view.Occupy(Names{"b/cpu0"}, "job-1").ok());
  const absl::Status taken = view.Occupy(Names{"a/cpu0", "b/cpu0"}, "job-2");
  REQUIRE(absl::IsFailedPrecondition(taken));
  CHECK_THAT(std::string(taken.message()), Catch::Contains("b/cpu0") && Catch::Contains("job-1"));
  for (const char* unknown : {"b/gpu0", "c/cpu0", "cpu0", ""}) {
    CAPTURE(unknown);
    CHECK(absl::IsNotFound(view.Occupy(Names{"a/cpu0", unknown}, "job-2")));
  }
  CHECK(view.FreeDevices() == Names{"a/cpu0", "b/cpu1"});
  view.Expire(At(10));
  const absl::Status dead = view.Occupy(Names{"a/cpu0"}, "job-2");
  REQUIRE(absl::IsFailedPrecondition(dead));
  CHECK_THAT(std::string(dead.message()), Catch::Contains("a/cpu0") && Catch::Contains("not alive"));
}

TEST_CASE("a node whose lease ends takes its devices along and names the jobs that had them") {
  ClusterView view = TwoNodes();
  REQUIRE(view.Occupy(Names{"a/cpu0", "b/cpu1"}, "job-1").ok());
  REQUIRE(view.Occupy(Names{"b/cpu0"}, "job-2").ok());
  REQUIRE(view.Renew("a", 1, At(8)).ok());
  const std::vector<LostNode> lost = view.Expire(At(12));
  REQUIRE(lost.size() == 1);
  CHECK(lost[0].name == "b");
  CHECK(lost[0].jobs == Names{"job-1", "job-2"});
  CHECK_THAT(lost[0].reason, Catch::Contains("12s"));
  CHECK(view.FreeDevices().empty());
  view.Release("job-1");
  view.Release("job-2");
  CHECK(view.FreeDevices() == Names{"a/cpu0"});
}

TEST_CASE(
    "an agent that was started anew loses its jobs, and its devices stay theirs until they release them") {
  ClusterView view = TwoNodes();
  REQUIRE(view.Occupy(Names{"b/cpu0"}, "job-1").ok());
  REQUIRE(view.Register(NodeWith("b", 1, {"cpu0", "cpu1"}), At(1))->empty());
  const auto lost = view.Register(NodeWith("b", 2, {"cpu0", "cpu2"}), At(2));
  REQUIRE(lost.ok());
  REQUIRE(lost->size() == 1);
  CHECK((*lost)[0].name == "b");
  CHECK((*lost)[0].jobs == Names{"job-1"});
  CHECK(view.FreeDevices() == Names{"a/cpu0", "b/cpu2"});
  CHECK(view.Find("b/cpu2")->incarnation == 2);
  view.Release("job-1");
  CHECK(view.FreeDevices() == Names{"a/cpu0", "b/cpu0", "b/cpu2"});
}

TEST_CASE("a node under a live one's name changes nothing") {
  ClusterView view = TwoNodes();
  NodeDescription thief = NodeWith("b", 2, {"gpu0"});
  thief.agent_address = "elsewhere:7000";
  CHECK(absl::IsAlreadyExists(view.Register(thief, At(5)).status()));
  CHECK(view.FreeDevices() == Names{"a/cpu0", "b/cpu0", "b/cpu1"});
  CHECK(view.Renew("b", 1, At(6)).ok());
}

TEST_CASE("a device is at the site that its node's newest agent says") {
  ClusterView view;
  NodeDescription node = NodeWith("a", 1, {"cpu0"});
  for (const char* site : {"north", "south", ""}) {
    CAPTURE(site);
    node.site = site;
    node.rack = std::string(site) + "-r1";
    REQUIRE(view.Register(node, At(0)).ok());
    CHECK(view.Find("a/cpu0")->site == site);
    CHECK(view.Find("a/cpu0")->rack == node.rack);
    CHECK(view.Nodes(At(0))[0].description.site == site);
    ++node.incarnation;
  }
}

TEST_CASE("a device is found with the agent that has it") {
  const ClusterView view = TwoNodes();
  const auto found = view.Find("b/cpu1");
  REQUIRE(found.ok());
  CHECK(found->agent_address == "b:7000");
  CHECK(found->host == "host-b");
  CHECK(found->host_memory == GiB(3));
  CHECK(found->node == "b");
  CHECK(found->device.description.name == "cpu1");
  CHECK(found->device.kind == "kind of cpu1");
}

TEST_CASE("nodes are listed with their jobs and age, dead ones until they are forgotten") {
  ClusterView view = TwoNodes();
  REQUIRE(view.Occupy(Names{"b/cpu1"}, "job-1").ok());
  REQUIRE(view.Renew("b", 1, At(4)).ok());
  view.Expire(At(11));
  const std::vector<NodeSnapshot> nodes = view.Nodes(At(11));
  REQUIRE(nodes.size() == 2);
  CHECK(nodes[0].description.name == "a");
  CHECK_FALSE(nodes[0].alive);
  CHECK_THAT(nodes[0].status, Catch::Contains("11s"));
  CHECK(nodes[0].since_renewal == absl::Seconds(11));
  CHECK(nodes[1].alive);
  CHECK(nodes[1].status.empty());
  CHECK(nodes[1].since_renewal == absl::Seconds(7));
  CHECK(nodes[1].jobs == std::map<std::string, std::string>{{"cpu1", "job-1"}});

  view.Expire(At(99.9));
  CHECK(view.ForgetLongDead(At(99.9)).empty());
  CHECK(view.Nodes(At(99.9)).size() == 2);
  CHECK(view.ForgetLongDead(At(100)) == Names{"a"});  // heard of last at 0
  CHECK(view.Nodes(At(100)).size() == 1);
  CHECK_FALSE(view.NodeNamed("a", At(100)).has_value());
  view.Expire(At(200));
  CHECK(view.ForgetLongDead(At(200)).empty());  // b has a job
  CHECK(view.Nodes(At(200)).size() == 1);
  view.Release("job-1");
  CHECK(view.ForgetLongDead(At(200)) == Names{"b"});
  CHECK(view.Nodes(At(200)).empty());
}

TEST_CASE("a node of an earlier process is lost, with its devices, until it registers or is forgotten") {
  ClusterView view = TwoNodes();
  view.AddLost(NodeWith("c", 0, {"cpu0"}), At(-30));
  view.AddLost(NodeWith("a", 0, {"other"}), At(-30));  // it is there
  CHECK(view.IsAlive("a", 1));
  CHECK(view.FreeDevices() == Names{"a/cpu0", "b/cpu0", "b/cpu1"});
  CHECK(absl::IsFailedPrecondition(view.Occupy(Names{"c/cpu0"}, "job-1")));
  const auto lost = view.NodeNamed("c", At(1));
  REQUIRE(lost.has_value());
  CHECK_FALSE(lost->alive);
  CHECK_FALSE(lost->left);
  CHECK(lost->since_renewal == absl::Seconds(31));
  CHECK_THAT(lost->status, Catch::Contains("31s"));
  CHECK(lost->description.devices.size() == 1);
  CHECK(view.Expire(At(1)).empty());  // nobody lost it now

  SECTION("registers") {
    CHECK(view.Register(NodeWith("c", 7, {"cpu0"}), At(2))->empty());
    CHECK(view.Occupy(Names{"c/cpu0"}, "job-1").ok());
    CHECK(view.ForgetLongDead(At(100)).empty());
  }
  SECTION("is forgotten") {
    CHECK(view.Forget("c").ok());
    CHECK_FALSE(view.NodeNamed("c", At(2)).has_value());
  }
  SECTION("is forgotten in time") {
    CHECK(view.ForgetLongDead(At(69.9)).empty());
    CHECK(view.ForgetLongDead(At(70)) == Names{"c"});
  }
}

TEST_CASE("a node that comes back is listed as alive again") {
  ClusterView view = TwoNodes();
  view.Expire(At(10));
  REQUIRE(view.Register(NodeWith("a", 2, {"cpu0"}), At(20))->empty());
  CHECK(view.FreeDevices() == Names{"a/cpu0"});
  CHECK(view.Nodes(At(21))[0].alive);
}

TEST_CASE("a device has one job at most, and none of a dead node is given out", "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{200}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  ClusterView view({.lease = absl::Seconds(10), .forget_after = absl::Seconds(60)});
  std::map<std::string, std::string> holders;                // device -> job
  std::map<std::string, std::optional<absl::Time>> renewed;  // node -> last renewal, nothing if it is dead
  std::map<std::string, uint64_t> incarnations;
  const auto jobs_on = [&](const std::string& node) {
    std::set<std::string> jobs;
    for (const auto& [device, job] : holders) {
      if (device.substr(0, 1) == node) jobs.insert(job);
    }
    return Names(jobs.begin(), jobs.end());
  };
  absl::Time now = At(0);
  for (int i = 0; i < 150; ++i) {
    now += absl::Milliseconds(random() % 3000);
    const std::string node(1, static_cast<char>('a' + random() % 3));
    const std::string job = "job-" + std::to_string(random() % 4);
    CAPTURE(i, node, job);
    for (const LostNode& lost : view.Expire(now)) {
      REQUIRE(renewed[lost.name].has_value());
      CHECK(now - *renewed[lost.name] >= absl::Seconds(10));
      CHECK(lost.jobs == jobs_on(lost.name));
      renewed[lost.name].reset();
    }
    switch (random() % 5) {
      case 0: {
        const auto lost = view.Register(NodeWith(node, ++incarnations[node], {"x", "y"}), now);
        REQUIRE(lost.ok());
        REQUIRE(lost->size() == (renewed[node].has_value() ? 1 : 0));
        if (!lost->empty()) CHECK((*lost)[0].jobs == jobs_on(node));
        renewed[node] = now;
        break;
      }
      case 1:
        CHECK(view.Renew(node, incarnations[node], now).ok() == renewed[node].has_value());
        if (renewed[node].has_value()) renewed[node] = now;
        break;
      case 2:
        view.Release(job);
        std::erase_if(holders, [&](const auto& entry) { return entry.second == job; });
        break;
      default: {
        Names free = view.FreeDevices();
        std::shuffle(free.begin(), free.end(), random);
        if (free.empty()) break;
        free.resize(1 + random() % free.size());
        REQUIRE(view.Occupy(free, job).ok());
        for (const std::string& device : free) CHECK(holders.emplace(device, job).second);
      }
    }
    Names expected;
    for (const auto& [name, at] : renewed) {
      for (const char* device : {"/x", "/y"}) {
        if (at.has_value() && !holders.contains(name + device)) expected.push_back(name + device);
      }
    }
    CHECK(view.FreeDevices() == expected);
  }
}

}  // namespace
}  // namespace medley
