#include "coordinator/predictor/predict.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "coordinator/predictor/uniform_problem.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/model/parameters.h"
#include "runtime/ir/program/random_plan.h"

namespace medley {
namespace {

TEST_CASE("one device takes the sum of its passes, norm and update") {
  PlanningProblem problem = Uniform(1, 3, 5);
  problem.devices[0].times[0].embedding = {0.25, 0.5};
  problem.devices[0].times[0].head = {0.125, 0.0625};
  problem.devices[0].norm_seconds_per_parameter = 1e-3;
  problem.devices[0].update_seconds_per_parameter = 2e-3;
  const auto prediction = PredictStep(problem, Replicas(5, {5}));
  REQUIRE(prediction.ok());
  const double passes = 5 * (3 * 3 + 0.25 + 0.5 + 0.125 + 0.0625);
  const double parameters = static_cast<double>(ModelElements(problem.shape.model));
  CHECK(prediction->step_seconds == Approx(passes + 3e-3 * parameters).epsilon(1e-12));
  CHECK(prediction->ranks[0].busy_seconds == Approx(prediction->step_seconds).epsilon(1e-12));
  CHECK(prediction->tokens_per_second == Approx(5 * 8 / prediction->step_seconds));
}

TEST_CASE("two devices on one processor take the sum of their work") {
  PlanningProblem problem = Uniform(2, 2, 8);
  problem.devices[1].processor = problem.devices[0].processor;
  const auto prediction = PredictStep(problem, Replicas(4, {3, 5}));
  REQUIRE(prediction.ok());
  CHECK(prediction->step_seconds == Approx(8 * 6).epsilon(1e-12));
  // Half as fast while both compute.
  CHECK(prediction->ranks[0].busy_seconds == Approx(2 * 3 * 6).epsilon(1e-12));
  problem.devices[1].processor = 7;
  CHECK(*PredictStepSeconds(problem, Replicas(4, {3, 5})) == Approx(5 * 6).epsilon(1e-12));
}

TEST_CASE("devices of a host slow each other down while they compute at the same time") {
  PlanningProblem problem = Uniform(3, 2, 8);
  for (DeviceCost& device : problem.devices) {
    device.host = 4;
    device.shared_slowdown = 1.5;
    device.shared_with = 2;
  }
  // One device alone is as fast as ever.
  CHECK(*PredictStepSeconds(problem, Replicas(4, {8})) == Approx(8 * 6).epsilon(1e-12));
  // Two of three: half of the slow-down, until one has nothing left to do.
  const auto two = PredictStep(problem, Replicas(4, {3, 5}));
  REQUIRE(two.ok());
  CHECK(two->step_seconds == Approx(3 * 6 * 1.25 + 2 * 6).epsilon(1e-12));
  CHECK(two->ranks[0].busy_seconds == Approx(3 * 6 * 1.25).epsilon(1e-12));
  // All three: all of it, then half, then none.
  CHECK(*PredictStepSeconds(problem, Replicas(4, {1, 2, 5})) ==
        Approx(6 * 1.5 + 6 * 1.25 + 3 * 6).epsilon(1e-12));
  // Norms and updates, which memory bounds, by a factor of their own.
  PlanningProblem updates = problem;
  for (DeviceCost& device : updates.devices) {
    device.shared_slowdown = 1;
    device.update_seconds_per_parameter = 2e-3;
  }
  const double even_seconds = *PredictStepSeconds(updates, Replicas(4, {4, 4}));
  for (DeviceCost& device : updates.devices) device.shared_update_slowdown = 3;
  const double slowed_seconds = *PredictStepSeconds(updates, Replicas(4, {4, 4}));
  const double of_updates = even_seconds - 4 * 6;
  CHECK(of_updates > 0);
  CHECK(slowed_seconds ==
        Approx(4 * 6 + 2 * of_updates).epsilon(1e-12));  // one of two others: 1 + (3 - 1) / 2
  // A device of another host takes no part, nor one that was not measured with them.
  problem.devices[1].host = 5;
  CHECK(*PredictStepSeconds(problem, Replicas(4, {3, 5})) == Approx(5 * 6).epsilon(1e-12));
  problem.devices[1].host = 4;
  problem.devices[1].shared_slowdown = 1;
  problem.devices[1].shared_with = 0;
  CHECK(*PredictStepSeconds(problem, Replicas(4, {3, 5})) == Approx(5 * 6).epsilon(1e-12));
}

TEST_CASE("each route's passes and messages are those of its own micro-batch size") {
  PlanningProblem problem = Uniform(3, 2, 5);
  problem.micro_batch_sizes = {1, 3};
  for (DeviceCost& device : problem.devices) {
    device.times.push_back(device.times[0]);
    for (PassTimes* pass : {&device.times[1].embedding, &device.times[1].layer, &device.times[1].head}) {
      pass->forward_seconds *= 3;
      pass->backward_seconds *= 3;
    }
  }
  Plan plan = Pipeline({2, 4}, 2, Schedule::kOneForwardOneBackward);
  plan.units.push_back({{"d2"}, {{0, 4}}});
  plan.routes.push_back({{2}, 1, 3});
  const auto prediction = PredictStep(problem, plan);
  REQUIRE(prediction.status().ToString() == "OK");
  const StepProgram small = CompileStep(plan, 0, problem.shape, Purpose::kTrain),
                    large = CompileStep(plan, 2, problem.shape, Purpose::kTrain);
  CHECK(small.visits[0].first_sequence == 0);
  CHECK(large.visits[0].first_sequence == 2);
  for (const Instruction& i : small.instructions) {
    if (i.peer >= 0) CHECK(static_cast<double>(i.bytes.value) == kMessageBytes);
  }
  const InstructionTime forward = prediction->ranks[2].timeline[0];
  REQUIRE(large.instructions[0].kind == InstructionKind::kForward);
  CHECK(forward.end_seconds - forward.start_seconds == Approx(3 * 2));  // two layers of a second
  CHECK(prediction->ranks[2].memory.activations.value > 2 * prediction->ranks[0].memory.activations.value);
}

TEST_CASE("every instruction has a time, in the order of its stream") {
  PlanningProblem problem = Uniform(3, 4, 5);
  for (LinkCost& link : problem.links.each()) link = Link(0.1, kMessageBytes / 0.3, 1000);
  Plan plan = Pipeline({2, 6}, 3, Schedule::kOneForwardOneBackward);
  plan.units.push_back({{"d2"}, {{0, 6}}});
  plan.routes.push_back({{2}, 2, 1});
  const auto prediction = PredictStep(problem, plan);
  REQUIRE(prediction.ok());
  double last = 0;
  for (int u = 0; u < 3; ++u) {
    const StepProgram program = CompileStep(plan, u, problem.shape, Purpose::kTrain);
    REQUIRE(prediction->ranks[u].timeline.size() == program.instructions.size());
    std::vector<double> free_at(kStreams, 0);
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      const InstructionTime time = prediction->ranks[u].timeline[i];
      double& free = free_at[static_cast<int>(program.instructions[i].stream)];
      CHECK(time.start_seconds >= free);
      CHECK(time.end_seconds >= time.start_seconds);
      free = time.end_seconds;
      for (const int other : program.instructions[i].waits_for) {
        if (other >= 0) CHECK(time.start_seconds >= prediction->ranks[u].timeline[other].end_seconds);
      }
      last = std::max(last, time.end_seconds);
    }
  }
  CHECK(prediction->step_seconds == last);
  CHECK(*PredictStepSeconds(problem, plan) == last);
}

TEST_CASE("memory is the model's, with the ops' workspace and copies") {
  PlanningProblem problem = Uniform(1, 2, 2);
  problem.devices[0].room.workspace = {1000};
  problem.devices[0].room.copy_bytes_per_parameter = 2;
  const auto prediction = PredictStep(problem, Replicas(4, {2}));
  REQUIRE(prediction.ok());
  const RankPrediction& unit = prediction->ranks[0];
  CHECK(unit.peak_memory == unit.memory.total() + Bytes{1000 + 2 * unit.memory.multiplied});
  CHECK(unit.memory_limit == GiB(1));
  // Whether a buffer is too large changes nothing of it.
  problem.devices[0].room.largest_buffer = {1};
  CHECK(PredictStep(problem, Replicas(4, {2}))->ranks[0].peak_memory == unit.peak_memory);
}

TEST_CASE("a unit with two ranges passes a micro-batch twice, and its messages with it") {
  PlanningProblem problem = Uniform(2, 4, 1);
  for (LinkCost& link : problem.links.each()) link.transfer = LinkModel::Line(0.5, kMessageBytes / 0.25);
  Plan plan;
  plan.units = {{{"d0"}, {{0, 2}, {4, 6}}}, {{"d1"}, {{2, 4}}}};
  plan.routes = {{{0, 1, 0}, 1, 1}};
  const auto prediction = PredictStep(problem, plan);
  REQUIRE(prediction.status().ToString() == "OK");
  const double scalars = 0.5 + 9 * 8 / kMessageBytes * 0.25;
  CHECK(prediction->step_seconds == Approx(4 * 3 + 2 * 2 * 0.75 + scalars).epsilon(1e-12));
  CHECK(prediction->ranks[0].busy_seconds == Approx(2 * 3).epsilon(1e-12));
}

TEST_CASE("plans of every form are predicted: streams in order, the ranks of a unit together") {
  int ended_together = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    PlannedShape planned = RandomWidePlan(seed);
    if (seed % 3 == 0) MoveActivationsToHost(planned.plan, planned.shape.model, seed);
    const Plan& plan = planned.plan;
    std::mt19937_64 random(seed);
    const auto real = [&] { return std::uniform_real_distribution<double>(0.5, 2)(random); };
    PlanningProblem problem;
    problem.shape = planned.shape;
    problem.micro_batch_sizes = {1, 2, 3};
    for (Rank rank = 0; rank < RankCount(plan); ++rank) {
      DeviceCost& device = problem.devices.emplace_back();
      device.name = DeviceOf(plan, rank);
      device.processor = rank;
      device.fetch_bytes_per_second = device.store_bytes_per_second = 1e4;
      ShareCost cost{.share = AtOrigin(ShareOf(plan, rank, planned.shape.model))};
      for (int size = 1; size <= 3; ++size) {
        const double layer = size * real();
        cost.times.push_back({{0.1, 0.2, 0.2}, {layer, 2 * layer, layer}, {0, 0.5, 0}});
      }
      cost.update_seconds_per_parameter = 1e-6;
      if (cost.share == WholeModel(planned.shape.model)) device.times = cost.times;
      device.shares.push_back(cost);
    }
    problem.links = DeviceLinks(static_cast<int>(problem.devices.size()));
    for (LinkCost& link : problem.links.each()) link = Link(0.01 * real(), 1000, 2000);
    const auto prediction = PredictStep(problem, plan);
    REQUIRE(prediction.status().ToString() == "OK");
    CHECK(*PredictStepSeconds(problem, plan) == prediction->step_seconds);
    for (Rank rank = 0; rank < RankCount(plan); ++rank) {
      const StepProgram program = CompileStep(plan, rank, planned.shape, Purpose::kTrain);
      const std::vector<InstructionTime>& timeline = prediction->ranks[rank].timeline;
      REQUIRE(timeline.size() == program.instructions.size());
      std::vector<double> free_at(kStreams, 0);
      for (size_t i = 0; i < timeline.size(); ++i) {
        double& free = free_at[static_cast<int>(program.instructions[i].stream)];
        CHECK(timeline[i].start_seconds >= free);
        CHECK(timeline[i].end_seconds >= timeline[i].start_seconds);
        free = timeline[i].end_seconds;
        for (const int other : program.instructions[i].waits_for) {
          if (other >= 0) CHECK(timeline[i].start_seconds >= timeline[other].end_seconds);
        }
      }
      CHECK(prediction->ranks[rank].busy_seconds > 0);
      const int members = static_cast<int>(plan.units[program.unit].devices.size());
      CHECK((prediction->ranks[rank].exchange_seconds > 1e-9) == (members > 1));
      // Passes within which its ranks sum end for all of them at once.
      const Rank first = FirstRankOf(plan, program.unit);
      if (rank == first) continue;
      const StepProgram beside = CompileStep(plan, first, planned.shape, Purpose::kTrain);
      std::vector<double> own, others;
      for (size_t i = 0; i < timeline.size(); ++i) {
        if (program.instructions[i].kind == InstructionKind::kInputGradient)
          own.push_back(timeline[i].end_seconds);
      }
      for (size_t i = 0; i < beside.instructions.size(); ++i) {
        if (beside.instructions[i].kind == InstructionKind::kInputGradient &&
            !beside.instructions[i].blocks.contains(0))
          others.push_back(prediction->ranks[first].timeline[i].end_seconds);
      }
      for (const double end : others) CHECK(std::find(own.begin(), own.end(), end) != own.end());
      ended_together += static_cast<int>(others.size());
    }
  }
  CHECK(ended_together > 100);
}

TEST_CASE("what the problem does not know is refused by name") {
  const PlanningProblem problem = Uniform(1, 2, 2);
  Plan plan = Replicas(4, {2});
  plan.units[0].devices[0] = "elsewhere";
  CHECK(absl::IsInvalidArgument(PredictStep(problem, plan).status()));
  CHECK_THAT(std::string(PredictStep(problem, plan).status().message()), Catch::Contains("elsewhere"));
  plan = Replicas(4, {1});
  plan.routes[0].micro_batch_sequences = 2;
  CHECK(absl::IsInvalidArgument(PredictStep(problem, plan).status()));
  plan = Replicas(4, {2});
  plan.units[0].devices.push_back("d1");
  PlanningProblem two = Uniform(2, 2, 2);
  two.shape.model.heads = 2;
  CHECK(PredictStep(two, plan).status().message() ==
        "units[0].devices: d0 has not been measured with its share of the blocks' width");
  two.devices[0].times.clear();
  CHECK(PredictStep(two, Replicas(4, {2})).status().message() ==
        "units[0].devices: d0 has not been measured with whole blocks");
}

}  // namespace
}  // namespace medley
