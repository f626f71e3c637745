// What a step takes whose layers or activations live elsewhere than on the devices that compute them.
#include <algorithm>
#include <catch2/catch.hpp>

#include "coordinator/predictor/predict.h"
#include "coordinator/predictor/uniform_problem.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/model/parameters.h"

namespace medley {
namespace {

TEST_CASE(
    "a layer that lives on the host is fetched beside what computes, and waited for where that is slower") {
  PlanningProblem problem = Uniform(1, 6, 4);
  problem.devices[0].norm_seconds_per_parameter = 1e-6;
  problem.devices[0].update_seconds_per_parameter = 2e-6;
  Plan plan = Replicas(8, {4});
  plan.schedule = Schedule::kGPipe;
  plan.units[0].window_layers = 2;
  CHECK_THAT(
      std::string(PredictStepSeconds(problem, plan).status().message()),
      Catch::Contains("units[0].window_layers: 2, but how fast d0 copies from and to host memory has not "
                      "been measured"));
  const double layer = static_cast<double>(SegmentElements(problem.shape.model, SegmentOfBlock(1)));
  const double parameters = static_cast<double>(ModelElements(problem.shape.model));
  const auto predict = [&](double bytes_per_second) {
    problem.devices[0].fetch_bytes_per_second = problem.devices[0].store_bytes_per_second = bytes_per_second;
    const auto seconds = PredictStepSeconds(problem, plan);
    REQUIRE(seconds.ok());
    return *seconds;
  };
  // Four micro-batches of six layers; norms and updates of all, and gradients of the layers are zeroed by themselves.
  const double computing = 4 * 6 * 3 + 3e-6 * parameters + 1e-6 * 6 * layer;
  CHECK(predict(1e15) == Approx(computing).epsilon(1e-6));
  // A layer comes while the one before computes for 4 s or more: only the first one is waited for, and what the update
  // needs, which comes and goes 16 and 12 bytes a parameter, both ways at once.
  const double slow = 4 * layer;  // bytes a second: a layer's parameters take 1 s
  const double seconds = predict(slow);
  CHECK(seconds > computing + 1);
  CHECK(seconds < computing + 1 + 6 * 4 + 3);
  // Much slower than it computes: all that is fetched follows each other.
  const double fetched = (6 * (4 + 4 + 16) - 2 * 4 - 2 * 8) * layer;
  const double slowest = predict(slow / 1000);
  CHECK(slowest > fetched / (slow / 1000));
}

TEST_CASE(
    "a layer that lives with its holders is gathered before its passes and scattered behind its gradients") {
  PlanningProblem problem = Uniform(2, 2, 2);
  problem.forced_all_reduce = CollectiveAlgorithm::kRing;
  const double elements = static_cast<double>(ModelElements(problem.shape.model));
  for (LinkCost& link : problem.links.each()) link = Link(0, kInstant, 4 * elements / 2);
  Plan plan = Replicas(4, {1, 1});
  plan.schedule = Schedule::kGPipe;
  plan.shards_optimizer = true;
  for (Unit& unit : plan.units) {
    unit.layers_home = LayersHome::kPeers;
    unit.window_layers = 1;
  }
  // Half of a sum of all gradients, which takes 2 s.
  const auto seconds_of = [&](SegmentId segment) {
    return static_cast<double>(SegmentElements(problem.shape.model, segment)) / elements;
  };
  const double layer = seconds_of(SegmentOfBlock(1)), embedding = seconds_of(SegmentOfBlock(0)),
               tied = seconds_of(kTiedSegment);
  // With one window nothing is gathered beside the layer before: two layers, forward and backward. The scatter of the
  // upper one goes beside the gathering of the lower one; behind the last backward are that of the lower one, and beside
  // it that of the embedding. First what does not live with its holders is gathered, the embedding beside the lower layer,
  // the head beside the layers' passes.
  const auto seconds = PredictStepSeconds(problem, plan);
  REQUIRE(seconds.ok());
  CHECK(*seconds == Approx(2 * 3 + 3 * layer + 2 * std::max(layer, embedding + tied)).epsilon(1e-9));
  // With a window each, layers are gathered ahead.
  for (Unit& unit : plan.units) unit.window_layers = 2;
  const auto ahead = PredictStepSeconds(problem, plan);
  REQUIRE(ahead.ok());
  CHECK(*ahead < *seconds - layer);
  CHECK(*ahead > 2 * 3 + 2 * layer);
}

TEST_CASE("copies that a device's own cores make take from what computes") {
  PlanningProblem problem = Uniform(1, 6, 4);
  Plan plan = Replicas(8, {4});
  plan.units[0].window_layers = 2;
  const double layer_bytes =
      4.0 * static_cast<double>(SegmentElements(problem.shape.model, SegmentOfBlock(1)));
  DeviceCost& device = problem.devices[0];
  device.fetch_bytes_per_second = 4 * layer_bytes;
  device.store_bytes_per_second = 2 * layer_bytes;
  double copying = 0;
  for (const Instruction& instruction : CompileStep(plan, 0, problem.shape, Purpose::kTrain).instructions) {
    const double bytes = static_cast<double>(instruction.bytes.value);
    if (instruction.kind == InstructionKind::kFetch) copying += bytes / device.fetch_bytes_per_second;
    if (instruction.kind == InstructionKind::kStore) copying += bytes / device.store_bytes_per_second;
  }
  const double computing = 4 * 6 * 3;
  const auto predict = [&](int cores) {
    device.cores = cores;
    const auto prediction = PredictStep(problem, plan);
    REQUIRE(prediction.status().ToString() == "OK");
    return *prediction;
  };
  // One core always has something to do, and does one thing at a time.
  const auto one = predict(1);
  CHECK(one.step_seconds == Approx(computing + copying).epsilon(1e-12));
  // Computing and nothing beside it takes no longer; of more cores a copy takes a smaller part.
  CHECK(one.ranks[0].busy_seconds > computing + 1);
  const double engines = predict(0).step_seconds, two = predict(2).step_seconds,
               many = predict(64).step_seconds;
  CHECK(engines < many);
  CHECK(many < two);
  CHECK(two < one.step_seconds);
  CHECK(many == Approx(engines).epsilon(0.05));
}

TEST_CASE(
    "activations that live on the host are copied beside what computes, and waited for where that is "
    "slower") {
  PlanningProblem problem = Uniform(1, 6, 8);
  Plan plan = Replicas(8, {8});
  plan.schedule = Schedule::kGPipe;
  plan.units[0].activations_home = ActivationsHome::kHost;
  CHECK_THAT(
      std::string(PredictStepSeconds(problem, plan).status().message()),
      Catch::Contains("units[0].activations_home: host, but how fast d0 copies from and to host memory has "
                      "not been measured"));
  const StepProgram program = CompileStep(plan, 0, problem.shape, Purpose::kTrain);
  double bytes = 0;
  int copies = 0;
  for (const Instruction& i : program.instructions) {
    if (i.kind != InstructionKind::kFetch) continue;
    bytes = static_cast<double>(i.bytes.value);
    ++copies;
  }
  REQUIRE(copies == 7);
  // If a copy takes so long, each way.
  const auto predict = [&](double copy_seconds) {
    problem.devices[0].fetch_bytes_per_second = problem.devices[0].store_bytes_per_second =
        bytes / copy_seconds;
    const auto seconds = PredictStepSeconds(problem, plan);
    REQUIRE(seconds.ok());
    return *seconds;
  };
  // Forwards take 6 s each, backwards 12.
  const double computing = 8 * 6 * 3;
  CHECK(predict(1e-6) == Approx(computing).epsilon(1e-6));
  CHECK(predict(5.9) == Approx(computing).epsilon(1e-6));
  CHECK(predict(12) > computing);
  // What goes one way follows each other.
  CHECK(predict(600) > 7 * 600);
  CHECK(predict(600) < 2 * 7 * 600 + computing);
}

TEST_CASE(
    "a layer on the host that is shared in parts is counted and updated as far as its rank answers for it") {
  // One device with windows, beside two that cut the same layers in two: each layer is summed in parts.
  PlanningProblem problem = WithHeads(Uniform(3, 4, 4), 2);
  const std::vector<ModelShare> shares = EvenShares(problem.shape.model, 2);
  problem =
      Shared(std::move(problem), {{WholeModel(problem.shape.model), 1}, {shares[0], 0.5}, {shares[1], 0.5}});
  DeviceCost& device = problem.devices[0];
  device.fetch_bytes_per_second = device.store_bytes_per_second = 1e15;
  for (const bool is_first : {true, false}) {
    for (const bool shards : {true, false}) {
      CAPTURE(is_first, shards);
      Plan plan{.shards_optimizer = shards};
      plan.units.push_back(
          {.devices = {"d0"}, .chunks = {{0, 6}}, .optimizer_weight = 3, .window_layers = 2});
      plan.units.push_back({.devices = {"d1", "d2"}, .chunks = {{0, 6}}});
      if (!is_first) std::swap(plan.units[0], plan.units[1]);
      plan.routes = {{{0}, 2, 1}, {{1}, 2, 1}};
      const Rank rank = is_first ? 0 : 2;
      // What it updates and counts of its layers.
      double updated = 0, counted = 0;
      int parts = 0;
      for (const GradientSlice& slice : SlicesOf(plan, rank, problem.shape.model)) {
        if (!slice.in_host_memory) continue;
        ++parts;
        updated += static_cast<double>(OwnedRange(slice, rank).size());
        if (shards || slice.holders.front() == rank)
          counted += static_cast<double>(OwnedRange(slice, rank).size());
      }
      REQUIRE(parts > 4);
      for (double DeviceCost::*seconds :
           {&DeviceCost::update_seconds_per_parameter, &DeviceCost::norm_seconds_per_parameter}) {
        device.update_seconds_per_parameter = device.norm_seconds_per_parameter = 0;
        device.*seconds = 1e-3;
        const auto prediction = PredictStep(problem, plan);
        REQUIRE(prediction.status().ToString() == "OK");
        const bool updates = seconds == &DeviceCost::update_seconds_per_parameter;
        const InstructionKind kind =
            updates ? InstructionKind::kUpdateParameters : InstructionKind::kNormGradients;
        const StepProgram program = CompileStep(plan, rank, problem.shape, Purpose::kTrain);
        double taken = 0;
        for (size_t i = 0; i < program.instructions.size(); ++i) {
          const InstructionTime& time = prediction->ranks[rank].timeline[i];
          if (program.instructions[i].kind == kind && program.instructions[i].blocks.size() > 0)
            taken += time.end_seconds - time.start_seconds;
        }
        CHECK(taken == Approx(1e-3 * (updates ? updated : counted)));
      }
    }
  }
}

}  // namespace
}  // namespace medley
