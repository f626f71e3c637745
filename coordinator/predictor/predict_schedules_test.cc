// What a step takes under each schedule, and in orders of its own.
#include <algorithm>
#include <catch2/catch.hpp>

#include "coordinator/predictor/predict.h"
#include "coordinator/predictor/uniform_problem.h"
#include "runtime/ir/program/evaluate_orders.h"
#include "runtime/ir/program/synthesise_orders.h"

namespace medley {
namespace {

TEST_CASE("a balanced pipeline without messages fills and drains once, under both schedules") {
  const int stages = GENERATE(2, 3, 4);
  const int micro_batches = GENERATE(1, 2, 4, 9);
  const Schedule schedule = GENERATE(Schedule::kGPipe, Schedule::kOneForwardOneBackward);
  CAPTURE(stages, micro_batches, NameOf(schedule));
  std::vector<int> ends;
  for (int s = 0; s < stages; ++s) ends.push_back(s + 2 + (s == stages - 1 ? 1 : 0));
  const auto seconds =
      PredictStepSeconds(Uniform(stages, stages, micro_batches), Pipeline(ends, micro_batches, schedule));
  REQUIRE(seconds.ok());
  CHECK(*seconds == Approx((micro_batches + stages - 1) * 3.0).epsilon(1e-12));
}

TEST_CASE("a pipeline under GPipe is as slow as its slowest forward and backward") {
  PlanningProblem problem = Uniform(2, 3, 6);
  // Stages of 1 and 2 layers: 1 + 2 forward to fill, the slower stage's rest, and backwards likewise.
  const auto seconds = PredictStepSeconds(problem, Pipeline({2, 5}, 6, Schedule::kGPipe));
  REQUIRE(seconds.ok());
  CHECK(*seconds == Approx((1 + 2 + 5 * 2) + (4 + 2 + 5 * 4)).epsilon(1e-12));
}

TEST_CASE("weights' gradients that are put off fill two thirds of the bubble") {
  const int stages = GENERATE(2, 4), micro_batches = 8;
  std::vector<int> ends;
  for (int s = 1; s <= stages; ++s) ends.push_back(s == stages ? stages + 2 : s + 1);
  const auto seconds = PredictStepSeconds(Uniform(stages, stages, micro_batches),
                                          Pipeline(ends, micro_batches, Schedule::kZeroBubbleH1));
  REQUIRE(seconds.ok());
  CHECK(*seconds == Approx(3 * micro_batches + stages - 1));
}

TEST_CASE("a backward takes longer in two passes than whole by what was measured") {
  PlanningProblem problem = Uniform(1, 3, 2);
  problem.devices[0].times[0].layer.split_seconds = 0.125;
  Plan plan = Pipeline({5}, 2, Schedule::kListed);
  using Kind = UnitOp::Kind;
  plan.units[0].order = {{Kind::kForward, 0, 0},
                         {Kind::kBackward, 0, 0},
                         {Kind::kForward, 0, 1},
                         {Kind::kInputGradient, 0, 1},
                         {Kind::kWeightGradient, 0, 1}};
  const auto prediction = PredictStep(problem, plan);
  REQUIRE(prediction.ok());
  CHECK(prediction->step_seconds == Approx(2 * 3 * 3 + 3 * 0.125));
  const StepProgram program = CompileStep(plan, 0, problem.shape, Purpose::kTrain);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const InstructionTime& time = prediction->ranks[0].timeline[i];
    const double seconds = time.end_seconds - time.start_seconds;
    if (program.instructions[i].kind == InstructionKind::kBackward) CHECK(seconds == Approx(3 * 2));
    if (program.instructions[i].kind == InstructionKind::kInputGradient) CHECK(seconds == Approx(3 * 1.125));
    if (program.instructions[i].kind == InstructionKind::kWeightGradient) CHECK(seconds == Approx(3));
  }
}

TEST_CASE("steps that go ahead of norms stand staggered, and take no less than the work of a unit") {
  PlanningProblem problem = Uniform(4, 8, 12);
  // The gradients of a table that both ends have are summed before either is updated.
  problem.shape.model.tied_head = false;
  const auto seconds = [&](Plan plan, bool ahead) {
    plan.post_validation = ahead;
    const absl::StatusOr<StepPrediction> prediction = PredictStep(problem, plan);
    INFO(prediction.status().ToString());
    REQUIRE(prediction.ok());
    double first = kInstant;
    for (Rank rank = 0; rank < RankCount(plan); ++rank) {
      const RankPrediction& of_rank = prediction->ranks[rank];
      for (const InstructionTime& time : of_rank.timeline) first = std::min(first, time.start_seconds);
      CHECK(of_rank.busy_seconds <= prediction->step_seconds * (1 + 1e-12));
      CHECK(of_rank.timeline.size() ==
            CompileStep(plan, rank, problem.shape, Purpose::kTrain).instructions.size());
    }
    CHECK(first == 0);
    return prediction->step_seconds;
  };
  const Plan alone = Pipeline({10}, 12, Schedule::kOneForwardOneBackward);
  CHECK(seconds(alone, true) == Approx(seconds(alone, false)));
  // The first unit of 1F1B waits for its last gradient whoever else is ahead.
  const Plan alternates = Pipeline({3, 5, 7, 10}, 12, Schedule::kOneForwardOneBackward);
  CHECK(seconds(alternates, true) == Approx(seconds(alternates, false)));
  // One that may keep more has work while it waits, and the last one's end is the next step's begin.
  Plan staggers = alternates;
  TimedPipeline pipeline = NominalPipeline(staggers);
  for (TimedStage& stage : pipeline.routes[0].stages)
    stage.forward_seconds = stage.input_gradient_seconds = stage.weight_gradient_seconds = 2;
  const SynthesisedOrders found =
      SynthesiseOrders(pipeline, {.memory_limit = std::vector<double>(4, 100.0), .goal = OrderGoal::kPeriod});
  staggers.schedule = Schedule::kListed;
  for (int unit = 0; unit < 4; ++unit) staggers.units[unit].order = found.orders[unit];
  CHECK(seconds(staggers, false) > 12 * 6 + 5);
  const std::vector<int> ahead = ForwardsBeforeNorms(pipeline, found.orders);
  for (int unit = 0; unit < 4; ++unit) {
    staggers.units[unit].forwards_ahead = ahead[unit];
  }
  CHECK(seconds(staggers, true) == Approx(12 * 6));
}

}  // namespace
}  // namespace medley
