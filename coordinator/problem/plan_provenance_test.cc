#include "coordinator/problem/plan_provenance.h"

#include <catch2/catch.hpp>

#include "coordinator/problem/planning_problem.h"

namespace medley {
namespace {

TrainingSpec Training() {
  TrainingSpec spec;
  spec.shape.model.layers = 2;
  spec.shape.model.hidden = 8;
  spec.shape.model.heads = 2;
  spec.shape.sequence = 4;
  return spec;
}

void AddProfile(v1::ClusterSpec& cluster, const std::string& kind, const std::string& shape, double at,
                const std::string& provenance) {
  v1::DeviceProfile& profile = *cluster.add_profiles();
  profile.set_device_kind(kind);
  profile.set_shape(shape);
  profile.set_measured_at_seconds(at);
  profile.set_provenance(provenance);
}

void AddShare(v1::PlanReport& report, const std::string& device, const std::string& kind, bool used) {
  v1::DeviceShare& share = *report.add_devices();
  share.set_device(device);
  share.set_kind(kind);
  share.set_used(used);
}

v1::ClusterSpec Cluster() {
  v1::ClusterSpec cluster;
  v1::Node& node = *cluster.add_nodes();
  node.set_name("a");
  node.add_devices()->set_name("cpu0");
  v1::Device& gpu = *node.add_devices();
  gpu.set_name("gpu0");
  gpu.set_emulated(true);
  return cluster;
}

TEST_CASE("a plan is emulated if a device that it uses is") {
  v1::PlanReport report;
  AddShare(report, "a/cpu0", "cpu", true);
  AddShare(report, "a/gpu0", "gpu", false);
  AddProvenance(Training(), Cluster(), report);
  CHECK_FALSE(report.emulated());
  CHECK_FALSE(report.devices(0).emulated());
  CHECK(report.devices(1).emulated());
  report.mutable_devices(1)->set_used(true);
  AddProvenance(Training(), Cluster(), report);
  CHECK(report.emulated());
}

TEST_CASE("a device that computes a bf16 job in f32 is said to") {
  v1::ClusterSpec cluster = Cluster();
  cluster.mutable_nodes(0)->mutable_devices(1)->set_computes_bf16(true);
  v1::PlanReport report;
  AddShare(report, "a/cpu0", "cpu", true);
  AddShare(report, "a/gpu0", "gpu", true);
  TrainingSpec training = Training();
  AddProvenance(training, cluster, report);
  CHECK_FALSE(report.devices(0).computes_f32_instead());
  training.precision = Precision::kBf16;
  AddProvenance(training, cluster, report);
  CHECK(report.devices(0).computes_f32_instead());
  CHECK_FALSE(report.devices(1).computes_f32_instead());
}

TEST_CASE("what a profile's times are worth, and what jobs changed of it, is said") {
  v1::ClusterSpec cluster = Cluster();
  AddProfile(cluster, "gpu", ShapeKey(Training()), 5, "measured");
  v1::DeviceProfile& profile = *cluster.mutable_profiles(0);
  profile.add_times()->set_spread(0.01);
  profile.add_times()->set_spread(0.25);
  profile.mutable_times(1)->set_doubt("a layer is too slow");
  v1::PlanReport report;
  AddShare(report, "a/gpu0", "gpu", true);
  AddProvenance(Training(), cluster, report);
  REQUIRE(report.profiles_size() == 1);
  CHECK(report.profiles(0).spread() == 0.25);
  REQUIRE(report.profiles(0).doubts_size() == 1);
  CHECK(report.profiles(0).doubts(0) == "a layer is too slow");
  CHECK(report.profiles(0).correction().empty());
  CHECK(CorrectionsOf(Training(), cluster).empty());

  profile.mutable_correction()->set_factor(0.9401);
  profile.mutable_correction()->set_steps(4);
  profile.mutable_correction()->set_job_id("gpt-7");
  AddProvenance(Training(), cluster, report);
  CHECK(report.profiles(0).correction() == "corrected by job gpt-7 over 4 steps: x 0.94");
  CHECK(CorrectionsOf(Training(), cluster) == std::map<std::string, double>{{"gpu", 0.9401}});
}

TEST_CASE("of each kind the newest profile of the job's shape is named") {
  v1::ClusterSpec cluster = Cluster();
  const std::string shape = ShapeKey(Training());
  AddProfile(cluster, "gpu", shape, 5, "newer");
  AddProfile(cluster, "gpu", shape, 3, "older");
  AddProfile(cluster, "gpu", "another shape", 9, "other");
  AddProfile(cluster, "tpu", shape, 9, "not in the report");
  v1::PlanReport report;
  AddShare(report, "a/gpu0", "gpu", true);
  AddShare(report, "a/cpu0", "cpu", true);
  AddProvenance(Training(), cluster, report);
  REQUIRE(report.profiles_size() == 1);
  CHECK(report.profiles(0).device_kind() == "gpu");
  CHECK(report.profiles(0).measured_at_seconds() == 5);
  CHECK(report.profiles(0).provenance() == "newer");
}

}  // namespace
}  // namespace medley
