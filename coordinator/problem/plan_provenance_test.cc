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

void AddProfile(Cluster& cluster, const std::string& kind, const std::string& shape, double at,
                const std::string& provenance) {
  cluster.profiles.push_back(
      {.device_kind = kind, .shape = shape, .measured_at_seconds = at, .provenance = provenance});
}

void AddDevice(PlanReport& report, const std::string& device, const std::string& kind, bool used) {
  report.explanation.devices.push_back({.name = device, .kind = kind, .used = used});
}

Cluster OneNode() {
  return {.nodes = {{.name = "a",
                     .devices = {{.description = {.name = "cpu0"}},
                                 {.description = {.name = "gpu0"}, .emulated = true}}}}};
}

TEST_CASE("a plan is emulated if a device that it uses is") {
  PlanReport report;
  AddDevice(report, "a/cpu0", "cpu", true);
  AddDevice(report, "a/gpu0", "gpu", false);
  AddProvenance(Training(), OneNode(), Plan{}, report);
  CHECK(report.emulated == std::set<std::string>{"a/gpu0"});
  CHECK(EmulatedInUse(report).empty());
  report.explanation.devices[1].used = true;
  AddProvenance(Training(), OneNode(), Plan{}, report);
  CHECK(EmulatedInUse(report) == std::vector<std::string>{"a/gpu0"});
}

TEST_CASE("a device that computes a bf16 job in f32 is said to") {
  Cluster cluster = OneNode();
  cluster.nodes[0].devices[1].computes.bf16 = true;
  PlanReport report;
  AddDevice(report, "a/cpu0", "cpu", true);
  AddDevice(report, "a/gpu0", "gpu", true);
  TrainingSpec training = Training();
  AddProvenance(training, cluster, Plan{}, report);
  CHECK(report.computes_f32_instead.empty());
  training.precision = Precision::kBf16;
  AddProvenance(training, cluster, Plan{}, report);
  CHECK(report.computes_f32_instead == std::set<std::string>{"a/cpu0"});
}

TEST_CASE("what a profile's times are worth, and what jobs changed of it, is said") {
  Cluster cluster = OneNode();
  AddProfile(cluster, "gpu", ShapeKey(Training()), 5, "measured");
  DeviceProfile& profile = cluster.profiles[0];
  profile.times = {{.spread = 0.01}, {.spread = 0.25, .doubt = "a layer is too slow"}};
  PlanReport report;
  AddDevice(report, "a/gpu0", "gpu", true);
  AddProvenance(Training(), cluster, Plan{}, report);
  REQUIRE(report.profiles.size() == 1);
  CHECK(report.profiles[0].spread == 0.25);
  CHECK(report.profiles[0].doubts == std::vector<std::string>{"a layer is too slow"});
  CHECK(report.profiles[0].correction.empty());
  CHECK(CorrectionsOf(Training(), cluster).empty());

  profile.correction = {.factor = 0.9401, .steps = 4, .job_id = "gpt-7"};
  AddProvenance(Training(), cluster, Plan{}, report);
  CHECK(report.profiles[0].correction == "corrected by job gpt-7 over 4 steps: x 0.94");
  CHECK(CorrectionsOf(Training(), cluster) == std::map<std::string, double>{{"gpu", 0.9401}});
}

TEST_CASE("a prediction rests on the least sure profile of the devices in use") {
  Cluster cluster = OneNode();
  AddProfile(cluster, "cpu", ShapeKey(Training()), 5, "measured");
  AddProfile(cluster, "gpu", ShapeKey(Training()), 0, "a data sheet");
  cluster.profiles[1].basis = PredictionBasis::kOtherShapes;
  PlanReport report;
  AddDevice(report, "a/cpu0", "cpu", true);
  AddDevice(report, "a/gpu0", "gpu", false);
  AddProvenance(Training(), cluster, Plan{}, report);
  CHECK(report.profiles.size() == 2);
  CHECK(report.basis == PredictionBasis::kMeasuredLayers);
  report.explanation.devices[1].used = true;
  AddProvenance(Training(), cluster, Plan{}, report);
  CHECK(report.basis == PredictionBasis::kOtherShapes);
}

TEST_CASE("of each kind the newest profile of the job's shape is named") {
  Cluster cluster = OneNode();
  const std::string shape = ShapeKey(Training());
  AddProfile(cluster, "gpu", shape, 5, "newer");
  AddProfile(cluster, "gpu", shape, 3, "older");
  AddProfile(cluster, "gpu", "another shape", 9, "other");
  AddProfile(cluster, "tpu", shape, 9, "not in the report");
  PlanReport report;
  AddDevice(report, "a/gpu0", "gpu", true);
  AddDevice(report, "a/cpu0", "cpu", true);
  AddProvenance(Training(), cluster, Plan{}, report);
  REQUIRE(report.profiles.size() == 1);
  CHECK(report.profiles[0].device_kind == "gpu");
  CHECK(report.profiles[0].measured_at_seconds == 5);
  CHECK(report.profiles[0].provenance == "newer");
}

}  // namespace
}  // namespace medley
