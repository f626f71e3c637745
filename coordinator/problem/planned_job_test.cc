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

void AddNode(v1::ClusterSpec& cluster, const std::string& name, bool computes_bf16) {
  v1::Node& node = *cluster.add_nodes();
  node.set_name(name);
  v1::Device& device = *node.add_devices();
  device.set_name("cpu0");
  device.set_kind(name);
  device.set_memory_bytes(1 << 30);
  device.set_computes_bf16(computes_bf16);
  v1::DeviceProfile& profile = *cluster.add_profiles();
  profile.set_device_kind(name);
  profile.set_shape(ShapeKey(Spec()));
  for (const uint32_t size : {1, 2, 4}) {
    v1::BlockPassTimes& times = *profile.add_times();
    times.set_micro_batch_sequences(size);
    times.set_layer_forward_seconds(size);
    times.set_layer_backward_seconds(2 * size);
  }
}

v1::ClusterSpec Cluster() {
  v1::ClusterSpec cluster;
  AddNode(cluster, "new", true);
  AddNode(cluster, "old", false);
  cluster.mutable_default_link()->set_bytes_per_second(1e9);
  cluster.mutable_default_link()->set_all_reduce_bytes_per_second(1e9);
  return cluster;
}

v1::JobSpec Pinned() {
  v1::JobSpec spec;
  v1::Plan& plan = *spec.mutable_plan();
  int first = 0;
  for (const std::string device : {"new/cpu0", "old/cpu0"}) {
    v1::Unit& unit = *plan.add_units();
    unit.add_devices(device);
    v1::BlockRange& blocks = *unit.add_blocks();
    blocks.set_first(first);
    blocks.set_end(first + 2);
    first += 2;
  }
  v1::Route& route = *plan.add_routes();
  route.add_units(0);
  route.add_units(1);
  route.set_micro_batches(4);
  route.set_micro_batch_sequences(1);
  return spec;
}

TEST_CASE("in a bf16 job devices that compute it store activations in it, unless the plan says otherwise") {
  const auto chosen = PlanJob({}, Spec(), Cluster(), Comparison::kNone);
  REQUIRE(chosen.status().ToString() == "OK");
  CHECK(chosen->stores_as_profiled);
  REQUIRE(chosen->plan.units.size() == 2);
  for (const Unit& unit : chosen->plan.units)
    CHECK(unit.activations == (unit.devices[0] == "new/cpu0" ? Dtype::kBf16 : Dtype::kF32));

  v1::JobSpec spec = Pinned();
  const auto open = PlanJob(spec, Spec(), Cluster(), Comparison::kNone);
  REQUIRE(open.status().ToString() == "OK");
  CHECK(open->plan.units[0].activations == Dtype::kBf16);
  CHECK(open->plan.units[1].activations == Dtype::kF32);
  CHECK(open->report.plan().units(1).activations() == v1::TENSOR_TYPE_F32);
  CHECK(open->stores_as_profiled);

  spec.mutable_plan()->mutable_units(0)->set_activations(v1::TENSOR_TYPE_F32);
  const auto said = PlanJob(spec, Spec(), Cluster(), Comparison::kNone);
  REQUIRE(said.status().ToString() == "OK");
  CHECK(said->plan.units[0].activations == Dtype::kF32);
  CHECK(!said->stores_as_profiled);

  TrainingSpec f32 = Spec();
  f32.precision = Precision::kF32;
  v1::ClusterSpec cluster = Cluster();
  for (v1::DeviceProfile& profile : *cluster.mutable_profiles()) profile.set_shape(ShapeKey(f32));
  const auto in_f32 = PlanJob(Pinned(), f32, cluster, Comparison::kNone);
  REQUIRE(in_f32.status().ToString() == "OK");
  CHECK(in_f32->plan.units[0].activations == Dtype::kF32);
}

}  // namespace
}  // namespace medley
