#include "coordinator/problem/planned_job.h"

#include <catch2/catch.hpp>

#include "coordinator/problem/planning_problem.h"

namespace medley {
namespace {

TrainingSpec Spec() {
  TrainingSpec spec;
  spec.shape = {{2, 256, 8, 1024, 256, 512}, 256, 4};
  spec.precision = Precision::kBf16;
  return spec;
}

void AddNode(Cluster& cluster, const std::string& name, bool computes_bf16) {
  cluster.nodes.push_back({.name = name,
                           .devices = {{.description = {.name = "cpu0", .memory_limit = GiB(1)},
                                        .kind = name,
                                        .computes = {.bf16 = computes_bf16}}}});
  DeviceProfile& profile = cluster.profiles.emplace_back();
  profile.device_kind = name;
  profile.shape = ShapeKey(Spec());
  for (const int size : {1, 2, 4}) {
    profile.times.push_back({.micro_batch_sequences = size, .blocks = {.layer = {1.0 * size, 2.0 * size}}});
  }
}

Cluster TwoNodes() {
  Cluster cluster;
  AddNode(cluster, "new", true);
  AddNode(cluster, "old", false);
  cluster.default_link = {LinkModel::Line(0, 1e9), LinkModel::Line(0, 1e9)};
  return cluster;
}

JobConstraints Pinned() {
  JobConstraints constraints;
  constraints.devices = {"new/cpu0", "old/cpu0"};
  constraints.micro_batch_sizes = {1};
  constraints.plan = {
      .units = {{.devices = {"new/cpu0"}, .chunks = {{0, 2}}}, {.devices = {"old/cpu0"}, .chunks = {{2, 4}}}},
      .routes = {{.units = {0, 1}, .micro_batches = 4, .micro_batch_sequences = 1}}};
  constraints.open_activations = {0, 1};
  return constraints;
}

TEST_CASE("in a bf16 job devices that compute it store activations in it, unless the plan says otherwise") {
  const auto chosen = PlanJob(Spec(), {}, TwoNodes(), Comparison::kNone);
  REQUIRE(chosen.status().ToString() == "OK");
  CHECK(chosen->stores_as_profiled);
  REQUIRE(chosen->plan.units.size() == 2);
  for (const Unit& unit : chosen->plan.units)
    CHECK(unit.activations == (unit.devices[0] == "new/cpu0" ? Dtype::kBf16 : Dtype::kF32));

  JobConstraints pinned = Pinned();
  const auto open = PlanJob(Spec(), pinned, TwoNodes(), Comparison::kNone);
  REQUIRE(open.status().ToString() == "OK");
  CHECK(open->plan.units[0].activations == Dtype::kBf16);
  CHECK(open->plan.units[1].activations == Dtype::kF32);
  CHECK(open->stores_as_profiled);

  pinned.open_activations = {1};
  const auto said = PlanJob(Spec(), pinned, TwoNodes(), Comparison::kNone);
  REQUIRE(said.status().ToString() == "OK");
  CHECK(said->plan.units[0].activations == Dtype::kF32);
  CHECK(!said->stores_as_profiled);

  TrainingSpec f32 = Spec();
  f32.precision = Precision::kF32;
  Cluster cluster = TwoNodes();
  for (DeviceProfile& profile : cluster.profiles) profile.shape = ShapeKey(f32);
  const auto in_f32 = PlanJob(f32, Pinned(), cluster, Comparison::kNone);
  REQUIRE(in_f32.status().ToString() == "OK");
  CHECK(in_f32->plan.units[0].activations == Dtype::kF32);
}

}  // namespace
}  // namespace medley
