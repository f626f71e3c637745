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

  profile.update_seconds_per_parameter = 1e-9;
  profile.corrections[TimeClass::kPasses] = {.factor = 0.9401, .steps = 4, .job_id = "gpt-7"};
  profile.corrections[TimeClass::kUpdates] = {.factor = 1.5, .steps = 15, .job_id = "gpt-8"};
  AddProvenance(Training(), cluster, Plan{}, report);
  CHECK(report.profiles[0].correction ==
        "passes x 0.94 by job gpt-7 over 4 steps, updates x 1.50 by job gpt-8 over 15 steps");
}

TEST_CASE("corrections of copies are told of the profile that copies are planned by, and of no other") {
  TrainingSpec training = Training();
  Plan plan;
  SECTION("with whole blocks") {}
  SECTION("with shares of them") {
    training.shape.model.feed_forward = 32;
    training.shape.model.vocabulary = 64;
    plan.units = {{.devices = {"a/cpu0", "a/gpu0"}, .chunks = {{0, 4}}}};
    plan.routes = {{.units = {0}, .micro_batches = 1, .micro_batch_sequences = 1}};
  }
  const ModelConfig& model = training.shape.model;
  const std::string shape =
      plan.units.empty() ? ShapeKey(training)
                         : ShapeKey(WithShare(training, AtOrigin(ShareOf(plan, RankCount(plan) - 1, model))));
  Cluster cluster = OneNode();
  AddProfile(cluster, "gpu", shape, 5, "measured");
  AddProfile(cluster, "gpu", "another", 6, "measured with another model");
  AddProfile(cluster, "cpu", "another", 7, "another kind");
  for (DeviceProfile& profile : cluster.profiles) {
    profile.times = {{.micro_batch_sequences = 1}};
    profile.fetch_bytes_per_second = profile.store_bytes_per_second = 1e9;
  }
  cluster.profiles[0].corrections[TimeClass::kPasses] = {.factor = 0.9, .steps = 4, .job_id = "gpt-1"};
  cluster.profiles[0].corrections[TimeClass::kFetches] = {.factor = 1.3, .steps = 4, .job_id = "gpt-1"};
  cluster.profiles[1].corrections[TimeClass::kPasses] = {.factor = 1.1, .steps = 4, .job_id = "gpt-2"};
  cluster.profiles[1].corrections[TimeClass::kStores] = {.factor = 1.4, .steps = 4, .job_id = "gpt-2"};
  cluster.profiles[2].corrections[TimeClass::kStores] = {.factor = 2, .steps = 4, .job_id = "gpt-3"};
  PlanReport report;
  AddDevice(report, "a/gpu0", "gpu", true);
  AddProvenance(training, cluster, plan, report);
  REQUIRE(report.profiles.size() == 1);
  CHECK(report.profiles[0].measured_at_seconds == 5);
  CHECK(report.profiles[0].share.empty() == plan.units.empty());
  CHECK(report.profiles[0].correction ==
        "passes x 0.90 by job gpt-1 over 4 steps, stores x 1.40 by job gpt-2 over 4 steps");
}

TEST_CASE("which profile the times of each class are from is known, and what they are multiplied by") {
  const std::string shape = ShapeKey(Training());
  Cluster cluster = OneNode();
  AddProfile(cluster, "gpu", shape, 4, "older");
  AddProfile(cluster, "gpu", shape, 5, "measured");
  AddProfile(cluster, "gpu", "another", 6, "measured with another model, copies too");
  DeviceProfile &of_shape = cluster.profiles[1], &of_copies = cluster.profiles[2];
  for (DeviceProfile* profile : {&of_shape, &of_copies}) {
    profile->times = {{.micro_batch_sequences = 1}};
    profile->fetch_bytes_per_second = profile->store_bytes_per_second = 1e9;
  }
  of_shape.update_seconds_per_parameter = 1e-9;
  of_shape.corrections[TimeClass::kPasses] = {.factor = 0.5};
  of_copies.corrections[TimeClass::kStores] = {.factor = 3};
  // Nothing was measured of norms and of recomputing.
  std::vector<TimesUse> expected = {{"gpu", TimeClass::kPasses, shape, 5, 0.5, {{.factor = 0.5}}},
                                    {"gpu", TimeClass::kUpdates, shape, 5, 1},
                                    {"gpu", TimeClass::kFetches, "another", 6, 1},
                                    {"gpu", TimeClass::kStores, "another", 6, 3, {{.factor = 3}}}};
  CHECK(TimesUsed(Training(), cluster) == expected);

  PassTimes& layer = of_shape.times[0].blocks.layer;
  layer.recompute_seconds = layer.recompute_but_attention_seconds = 1;
  expected.insert(expected.begin() + 1, {"gpu", TimeClass::kRecomputations, shape, 5, 0.5});
  CHECK(TimesUsed(Training(), cluster) == expected);
  of_shape.corrections[TimeClass::kRecomputations] = {.factor = 0.7};
  expected[1].factor = 0.7;
  expected[1].correction = {{.factor = 0.7}};
  CHECK(TimesUsed(Training(), cluster) == expected);
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
