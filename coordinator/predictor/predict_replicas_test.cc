// What sums of gradients over replicas take.
#include <catch2/catch.hpp>

#include "coordinator/predictor/alike_routes.h"
#include "coordinator/predictor/predict.h"
#include "coordinator/predictor/uniform_problem.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/model/parameters.h"

namespace medley {
namespace {

TEST_CASE("replicas wait for the slowest and sum their gradients in a ring") {
  PlanningProblem problem = Uniform(3, 2, 7);
  problem.forced_all_reduce = CollectiveAlgorithm::kRing;
  const double bytes = 4.0 * static_cast<double>(ModelElements(problem.shape.model));
  for (LinkCost& link : problem.links.each()) link = Link(0.01, kInstant, bytes / 2);
  // In three buckets, from the last: the head and the second layer, while the first layer's backward runs for
  // 2 s; the first layer; the embeddings.
  const std::vector<GradientSlice> buckets = SlicesOf(Replicas(4, {2, 5}), 0, problem.shape.model);
  REQUIRE(buckets.size() == 3);
  REQUIRE(buckets[0].completed_by == 2);
  const auto share = [&](int bucket) { return 4.0 * static_cast<double>(buckets[bucket].elements) / bytes; };
  SECTION("two: the vector's bytes at the measured rate, the first bucket hidden behind the backward") {
    const auto seconds = PredictStepSeconds(problem, Replicas(4, {2, 5}));
    REQUIRE(seconds.ok());
    CHECK(*seconds == Approx(5 * 6 + 2 * (2 * 0.01) + 2 * (share(1) + share(2)) + 0.01).epsilon(1e-12));
  }
  SECTION(
      "two that shard the optimizer: half of each ring is a gathering of what each owns, which the first "
      "forward waits for") {
    Plan plan = Replicas(4, {2, 5});
    plan.shards_optimizer = true;
    plan.units[1].optimizer_weight = 3;
    for (DeviceCost& device : problem.devices) {
      device.norm_seconds_per_parameter = 1e-3;
      device.update_seconds_per_parameter = 2e-3;
    }
    const auto seconds = PredictStepSeconds(problem, plan);
    REQUIRE(seconds.ok());
    double owned = 0;
    for (const GradientSlice& slice : SlicesOf(plan, 1, problem.shape.model))
      owned += static_cast<double>(OwnedRange(slice, 1).size());
    CHECK(owned == Approx(0.75 * static_cast<double>(ModelElements(problem.shape.model))).epsilon(1e-2));
    // Three quarters go one way, where even parts would be halves. What the second layer uses comes while the first one is computed for 1 s.
    const double exchanged = 2 * 0.01 + 1.5 * (share(1) + share(2));
    CHECK(*seconds == Approx(5 * 6 + 2 * exchanged + 3e-3 * owned + 0.01).epsilon(1e-3));  // whole elements
    // By kinds of routes, too.
    const auto by_kinds = AlikeRoutePredictor(problem).Predict(plan);
    REQUIRE(by_kinds.ok());
    CHECK(*by_kinds == Approx(*seconds).epsilon(1e-3));
  }
  SECTION("three: four rounds of a third, as slow as the slowest link, longer than the backward beside it") {
    for (LinkCost& link : problem.links.each()) link = Link(0, kInstant, bytes / 2);
    problem.links.Mutable(1, 2).exchange = LinkModel::Line(0, bytes / 6);
    const auto seconds = PredictStepSeconds(problem, Replicas(4, {2, 4, 1}));
    REQUIRE(seconds.ok());
    CHECK(*seconds == Approx(4 * 6 - 2 + 4 * 2).epsilon(1e-3));  // elements do not divide by three
  }
}

TEST_CASE("sums of gradients take from what the same cores compute") {
  PlanningProblem problem = Uniform(2, 2, 4);
  problem.forced_all_reduce = CollectiveAlgorithm::kRing;
  const double bytes = 4.0 * static_cast<double>(ModelElements(problem.shape.model));
  for (LinkCost& link : problem.links.each()) link = Link(0, kInstant, bytes);  // all in a second
  const Plan plan = Replicas(4, {2, 2});
  const auto seconds = [&](int cores) {
    for (DeviceCost& device : problem.devices) device.cores = cores;
    return *PredictStepSeconds(problem, plan);
  };
  // Beside what computes but for the last bucket's; on the one core that computes all of it takes its time.
  const double hidden = seconds(0), one = seconds(1), many = seconds(64);
  CHECK(one == Approx(2 * 6 + 1).epsilon(1e-12));
  CHECK(hidden < one - 0.1);
  CHECK(many > hidden);
  CHECK(many == Approx(hidden).epsilon(0.01));
}

TEST_CASE("replicas sum gradients by a library as it was measured, but where a unit exchanges by it") {
  PlanningProblem problem = WithHeads(Uniform(3, 2, 6), 2);
  const std::vector<ModelShare> shares = EvenShares(problem.shape.model, 2);
  problem = Shared(std::move(problem), {{shares[0], 0.5}, {shares[1], 0.5}, {shares[1], 0.5}});
  for (DeviceCost& device : problem.devices) {
    device.has_own_memory = true;
    device.group_library = "NCCL 2.28.3";
  }
  const auto step_seconds = [&](const Plan& plan) {
    const absl::StatusOr<double> seconds = PredictStepSeconds(problem, plan);
    REQUIRE(seconds.status().ToString() == "OK");
    return *seconds;
  };
  const Plan single = Replicas(4, {3, 3});
  Plan shared = single;
  shared.units[0].devices = {"d0", "d2"};
  const double single_seconds = step_seconds(single), shared_seconds = step_seconds(shared);
  CHECK(*AlikeRoutePredictor(problem).Predict(single) == Approx(single_seconds));
  problem.links.Mutable(0, 1).all_reduce = problem.links.Mutable(1, 2).all_reduce = {{2, {{{0, 0.25}}}}};
  CHECK(step_seconds(single) >= single_seconds + 0.25);
  CHECK(*AlikeRoutePredictor(problem).Predict(single) == Approx(step_seconds(single)));
  CHECK(step_seconds(shared) == shared_seconds);
}

TEST_CASE("of replicas of which one has layers in host memory the hosts sum these, and a library the rest") {
  PlanningProblem problem = Uniform(2, 6, 6);
  for (DeviceCost& device : problem.devices) {
    device.has_own_memory = true;
    device.group_library = "NCCL 2.28.3";
    device.fetch_bytes_per_second = device.store_bytes_per_second = 1e15;
  }
  constexpr double kSumSeconds = 1e5;  // all passes take less than a minute
  for (LinkCost& link : problem.links.each()) link.all_reduce = {{2, {{{0, kSumSeconds}}}}};
  Plan plan = Replicas(8, {3, 3});
  plan.schedule = Schedule::kGPipe;
  for (const bool in_host_memory : {false, true}) {
    CAPTURE(in_host_memory);
    plan.units[0].window_layers = in_host_memory ? 2 : 0;
    int by_library = 0;
    for (const GradientSlice& slice : SlicesOf(plan, 1, problem.shape.model))
      by_library += slice.sums_on_hosts ? 0 : 1;
    REQUIRE(by_library > 0);
    const absl::StatusOr<double> simulated = PredictStepSeconds(problem, plan),
                                 alike = AlikeRoutePredictor(problem).Predict(plan);
    REQUIRE(simulated.status().ToString() == "OK");
    REQUIRE(alike.status().ToString() == "OK");
    CHECK(*simulated == Approx(kSumSeconds * by_library).epsilon(0.001));
    CHECK(*alike == Approx(kSumSeconds * by_library).epsilon(0.001));
  }
}

}  // namespace
}  // namespace medley
