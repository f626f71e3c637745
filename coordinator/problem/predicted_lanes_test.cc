#include "coordinator/problem/predicted_lanes.h"

#include <catch2/catch.hpp>

#include "coordinator/problem/alike_nodes.h"

namespace medley {
namespace {

PlannedJob Planned(const std::vector<int>& micro_batches) {
  const int alike = static_cast<int>(micro_batches.size()) - 1;
  absl::StatusOr<PlannedJob> planned =
      PlanJob(SmallJob(), Replicas(micro_batches), AlikeNodes(alike), Comparison::kNone);
  REQUIRE(planned.status().ToString() == "OK");
  return *planned;
}

std::vector<int> RanksOf(const PredictedLane& lane) {
  std::vector<int> ranks;
  for (const LaneRank& rank : lane.ranks) ranks.push_back(rank.rank);
  return ranks;
}

TEST_CASE("devices of one kind that do the same at the same times are one lane, micro-batches apart") {
  const PlannedJob planned = Planned({2, 2, 2, 2});
  const std::vector<PredictedLane> lanes = PredictedLanesOf(planned, SmallJob().shape);
  REQUIRE(lanes.size() == 2);
  CHECK(lanes[0].kind == "alike");
  CHECK(RanksOf(lanes[0]) == std::vector<int>{0, 1, 2});
  CHECK(lanes[0].ranks[2].first_micro_batch == 4);
  CHECK(lanes[1].kind == "other");
  CHECK(RanksOf(lanes[1]) == std::vector<int>{3});
  for (const PredictedLane& lane : lanes) {
    CHECK_FALSE(lane.left_out);
    const RankPrediction& prediction = planned.prediction.ranks[lane.ranks[0].rank];
    REQUIRE(lane.instructions.size() == prediction.timeline.size());
    REQUIRE(lane.times.size() == prediction.timeline.size());
    for (size_t i = 0; i < lane.times.size(); ++i) {
      CHECK(lane.times[i].start_seconds == prediction.timeline[i].start_seconds);
      CHECK(lane.times[i].end_seconds == prediction.timeline[i].end_seconds);
    }
    REQUIRE(lane.memory.size() == 2);  // a backward ends when the next forward begins
    CHECK(lane.memory[0].activations > Bytes{0});
    CHECK(lane.memory[1].activations == Bytes{0});
  }
}

TEST_CASE("devices of one kind with other work are lanes of their own") {
  const std::vector<PredictedLane> lanes = PredictedLanesOf(Planned({2, 3, 2, 1}), SmallJob().shape);
  REQUIRE(lanes.size() == 3);
  CHECK(RanksOf(lanes[0]) == std::vector<int>{0, 2});
  CHECK(RanksOf(lanes[1]) == std::vector<int>{1});
  CHECK(RanksOf(lanes[2]) == std::vector<int>{3});
}

TEST_CASE("a difference in times, kind or memory parts ranks, one of rounding does not") {
  PlannedJob planned = Planned({4, 4, 0});
  const TrainingShape shape = SmallJob().shape;
  REQUIRE(PredictedLanesOf(planned, shape).size() == 1);
  double& end_seconds = planned.prediction.ranks[1].timeline[3].end_seconds;
  const double was_seconds = end_seconds;
  end_seconds = was_seconds + 1e-12 * planned.prediction.step_seconds;
  CHECK(PredictedLanesOf(planned, shape).size() == 1);
  end_seconds = was_seconds + 1e-6 * planned.prediction.step_seconds;
  CHECK(PredictedLanesOf(planned, shape).size() == 2);
  end_seconds = was_seconds;
  planned.prediction.ranks[1].memory_limit += MiB(1);
  CHECK(PredictedLanesOf(planned, shape).size() == 2);
  planned.prediction.ranks[1].memory_limit = planned.prediction.ranks[0].memory_limit;
  planned.report.explanation.devices[1].kind = "another";
  CHECK(PredictedLanesOf(planned, shape).size() == 2);
}

TEST_CASE("what is told is bounded, and the first lane of each kind goes first") {
  const PlannedJob planned = Planned({2, 3, 1, 2});
  const std::vector<PredictedLane> all = PredictedLanesOf(planned, SmallJob().shape);
  REQUIRE(all.size() == 4);
  const auto told = [](const PredictedLane& lane) {
    return static_cast<int64_t>(lane.instructions.size() + lane.memory.size());
  };
  const std::vector<PredictedLane> some =
      PredictedLanesOf(planned, SmallJob().shape, told(all[0]) + told(all[3]));
  REQUIRE(some.size() == 4);
  CHECK_FALSE(some[0].left_out);
  CHECK(some[1].left_out);
  CHECK(told(some[1]) == 0);
  CHECK(some[1].times.empty());
  CHECK(RanksOf(some[1]) == std::vector<int>{1});
  CHECK(some[2].left_out);
  CHECK_FALSE(some[3].left_out);
  CHECK(told(some[3]) == told(all[3]));
}

}  // namespace
}  // namespace medley
