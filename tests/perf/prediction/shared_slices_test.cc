// What is predicted of slices whose holders share the optimizer's state, held against the schedules that the workers run of them.
#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/predictor/alike_routes.h"
#include "coordinator/predictor/predict.h"
#include "coordinator/predictor/reductions.h"
#include "runtime/engine/exec/slice_schedules.h"
#include "runtime/ir/collective/collective_time.h"

namespace medley {
namespace {

// As many replicas as there are weights, each of one device.
Plan SharedReplicas(const PlanningProblem& problem, const std::vector<int>& weights) {
  Plan plan{.shards_optimizer = true};
  for (size_t d = 0; d < weights.size(); ++d) {
    plan.units.push_back({.devices = {problem.devices[d].name},
                          .chunks = {{0, problem.shape.model.layers + 2}},
                          .optimizer_weight = weights[d]});
    plan.routes.push_back({{static_cast<int>(d)}, 1, 1});
  }
  return plan;
}

template <typename LinkOf>
PlanningProblem Devices(int count, const LinkOf& link) {
  PlanningProblem problem;
  problem.shape.model = {
      .layers = 3, .hidden = 256, .heads = 4, .feed_forward = 1024, .vocabulary = 1000, .context = 32};
  problem.shape.sequence = 32;
  problem.shape.global_batch_sequences = count;
  problem.micro_batch_sizes = {1};
  problem.links = DeviceLinks(count);
  for (int a = 0; a < count; ++a) {
    problem.devices.push_back(
        {.name = absl::StrCat("d", a),
         .kind = "k",
         .processor = a,
         .room = {.memory = GiB(1)},
         .times = {{.embedding = {0, 0}, .layer = {0.01, 0.02, 0.01}, .head = {0.01, 0.01}}}});
    for (int b = 0; b < a; ++b) problem.links.Mutable(b, a) = link(b, a);
  }
  return problem;
}

LinkCost Line(double latency_seconds, double bytes_per_second) {
  return {LinkModel::Line(latency_seconds, bytes_per_second),
          LinkModel::Line(latency_seconds, bytes_per_second)};
}

// Of the replicas' ranks, which hold all slices together.
class Workers {
 public:
  Workers(const PlanningProblem& problem, const Plan& plan) : problem_(problem) {
    const auto reductions = ReductionsOf(problem, plan);
    REQUIRE(reductions.status().ToString() == "OK");
    for (Rank rank = 0; rank < RankCount(plan); ++rank) {
      programs_.push_back(CompileStep(plan, rank, problem.shape, Purpose::kTrain));
      schedules_.push_back(SchedulesOf(programs_.back(), *reductions));
    }
  }

  const StepProgram& program(Rank rank) const { return programs_[rank]; }

  double Seconds(int slice, bool gathers) const {
    CollectiveSchedule schedule{.members = static_cast<int>(programs_.size()),
                                .elements = programs_[0].slices[slice].elements};
    CollectiveProblem group{.members = schedule.members,
                            .elements = schedule.elements,
                            .wire_bytes_per_element = gathers ? 4 : problem_.wire_bytes_per_element};
    for (int a = 0; a < schedule.members; ++a) {
      const SliceSchedules& own = schedules_[a];
      schedule.steps.push_back((gathers ? own.gathers : own.sums)[slice].steps[a]);
      for (int b = 0; b < schedule.members; ++b)
        group.links.push_back(a == b ? nullptr : &problem_.links.Between(a, b));
    }
    return CollectiveSeconds(group, schedule);
  }

 private:
  const PlanningProblem& problem_;
  std::vector<StepProgram> programs_;
  std::vector<SliceSchedules> schedules_;
};

// Each scatter and gather of the whole simulation; how many.
int CheckAsRun(const PlanningProblem& problem, const std::vector<int>& weights) {
  const Plan plan = SharedReplicas(problem, weights);
  const Workers workers(problem, plan);
  const absl::StatusOr<StepPrediction> predicted = PredictStep(problem, plan);
  REQUIRE(predicted.status().ToString() == "OK");
  int scatters = 0, gathers = 0;
  for (Rank rank = 0; rank < RankCount(plan); ++rank) {
    const std::vector<Instruction>& instructions = workers.program(rank).instructions;
    for (size_t i = 0; i < instructions.size(); ++i) {
      const bool is_gather = instructions[i].kind == InstructionKind::kGatherParameters;
      if (!is_gather && instructions[i].kind != InstructionKind::kScatterGradients) continue;
      CAPTURE(rank, i, is_gather);
      const InstructionTime& time = predicted->ranks[rank].timeline[i];
      CHECK(time.end_seconds - time.start_seconds ==
            Approx(workers.Seconds(instructions[i].slice, is_gather)).epsilon(1e-9));
      ++(is_gather ? gathers : scatters);
    }
  }
  CHECK(scatters == gathers);
  return scatters;
}

// Of the whole simulation, by groups.
void CheckByGroups(const PlanningProblem& problem, const std::vector<int>& weights, double epsilon) {
  const Plan plan = SharedReplicas(problem, weights);
  const absl::StatusOr<double> whole = PredictStepSeconds(problem, plan),
                               by_groups = AlikeRoutePredictor(problem).Predict(plan);
  REQUIRE(whole.status().ToString() == "OK");
  REQUIRE(by_groups.status().ToString() == "OK");
  CHECK(*by_groups == Approx(*whole).epsilon(epsilon));
}

TEST_CASE("slices in unlike parts over unlike links take what the workers' rings do") {
  const auto unlike = [](int a, int b) { return Line(1e-4 * (1 + a), (a + b) % 3 == 0 ? 1e8 : 1e9); };
  for (const std::vector<int>& weights :
       {std::vector<int>{3, 1, 1}, {1, 0, 5, 2}, {1, 2, 1, 2, 7}, {4, 4, 1, 1, 2, 3, 5, 1}}) {
    CAPTURE(weights);
    for (const double wire : {4.0, 2.0}) {
      PlanningProblem problem = Devices(static_cast<int>(weights.size()), unlike);
      problem.wire_bytes_per_element = wire;
      CHECK(CheckAsRun(problem, weights) > 3);
    }
  }
}

TEST_CASE("where whole sums are halved and doubled shared slices are, too, unless a ring is forced") {
  PlanningProblem problem = Devices(16, [](int, int) { return Line(1e-3, 1e9); });
  const std::vector<int> even(16, 1);
  const std::vector<double> even_shares(16, 1);
  const Plan plan = SharedReplicas(problem, even);
  const GradientSlice slice = SlicesOf(plan, 0, problem.shape.model).front();
  std::vector<int> all(16);
  std::iota(all.begin(), all.end(), 0);
  Reductions reductions(problem);
  const CollectiveChoice whole = reductions.Choose(all, slice.elements);
  REQUIRE(whole.algorithm == CollectiveAlgorithm::kHalvingDoubling);
  CHECK(CheckAsRun(problem, even) > 16);
  // Half of it each, where a ring has 15 rounds.
  for (const SumPart part : {SumPart::kScattered, SumPart::kGathered})
    CHECK(reductions.SharedSeconds({all, even_shares, slice.elements}, part) ==
          Approx(whole.predicted_seconds / 2).epsilon(0.1));
  CHECK(whole.predicted_seconds < 15e-3);
  CheckByGroups(problem, even, 0.02);
  PlanningProblem by_rings = problem;
  by_rings.forced_all_reduce = CollectiveAlgorithm::kRing;
  Reductions rings(by_rings);
  for (const SumPart part : {SumPart::kScattered, SumPart::kGathered})
    CHECK(rings.SharedSeconds({all, even_shares, slice.elements}, part) > 15e-3);
  CHECK(CheckAsRun(by_rings, even) > 16);
  const absl::StatusOr<std::vector<ReductionChoice>> reductions_of_plan = ReductionsOf(problem, plan);
  REQUIRE(reductions_of_plan.ok());
  for (const ReductionChoice& reduction : *reductions_of_plan) {
    CHECK(reduction.choice.algorithm == CollectiveAlgorithm::kHalvingDoubling);
    CHECK(reduction.choice.predicted_seconds < 15e-3);
  }
  // Parameters are gathered as f32, whatever gradients travel as.
  for (LinkCost& link : problem.links.each()) link = Line(1e-6, 1e8);
  problem.wire_bytes_per_element = 2;
  Reductions narrow(problem);
  CHECK(narrow.SharedSeconds({all, even_shares, slice.elements}, SumPart::kGathered) ==
        Approx(2 * narrow.SharedSeconds({all, even_shares, slice.elements}, SumPart::kScattered))
            .epsilon(0.02));
  CHECK(CheckAsRun(problem, even) > 16);
  CheckByGroups(problem, even, 0.02);
}

TEST_CASE("by groups shared slices take about what they do in the whole simulation") {
  for (const int count : {3, 5, 16, 24}) {
    for (const double wire : {4.0, 2.0}) {
      CAPTURE(count, wire);
      PlanningProblem problem = Devices(count, [](int, int) { return Line(1e-5, 1e8); });
      problem.wire_bytes_per_element = wire;
      CheckByGroups(problem, std::vector<int>(count, 1), 0.01);
      std::vector<int> weights(count, 1);
      for (int d = 0; d < count / 2; ++d) weights[d] = 2;
      CheckByGroups(problem, weights, 0.1);
    }
  }
}

}  // namespace
}  // namespace medley
