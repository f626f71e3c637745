#include "coordinator/predictor/work_bound.h"

#include <catch2/catch.hpp>

#include "coordinator/planner/planner.h"
#include "coordinator/planner/random_problem.h"

namespace medley {
namespace {

DeviceCost Device(double layer, double head, double embedding = 0) {
  return {.times = {{.embedding = {embedding / 2, embedding / 2},
                     .layer = {layer / 3, 2 * layer / 3},
                     .head = {head / 4, 3 * head / 4}}}};
}

PlanningProblem Of(std::vector<DeviceCost> devices) {
  PlanningProblem problem;
  problem.shape.model = {
      .layers = 10, .hidden = 8, .heads = 1, .feed_forward = 32, .vocabulary = 100, .context = 16};
  problem.shape.sequence = 16;
  problem.shape.global_batch_sequences = 6;
  problem.micro_batch_sizes = {1};
  problem.devices = std::move(devices);
  return problem;
}

TEST_CASE("one device does all by itself, and alike ones their parts of it") {
  CHECK(WorkSeconds(Of({Device(1, 4, 2)})) == Approx(6 * (10 + 4 + 2)));
  CHECK(WorkSeconds(Of({Device(1, 4, 2), Device(1, 4, 2), Device(1, 4, 2)})) == Approx(2 * (10 + 4 + 2)));
  CHECK(WorkSeconds(Of({Device(1, 0)})) == Approx(6 * 10));
}

TEST_CASE("each does what it is better at than others, as far as there is of it") {
  // The second does the head as fast, and layers five times as slowly: it has the heads, 24 s, and what is left over of layers.
  const double seconds = WorkSeconds(Of({Device(1, 4), Device(5, 4)}));
  // 60 layers: the first does T, the second (T - 24) / 5.
  CHECK(seconds == Approx((60 + 24.0 / 5) / 1.2));
  // Heads that nearly nobody else can do take their device all the time, and longer than the layers take all others.
  CHECK(WorkSeconds(Of({Device(1, 1e6), Device(1, 1e6), Device(1, 10)})) == Approx(60).epsilon(1e-3));
  // An embedding likewise.
  CHECK(WorkSeconds(Of({Device(1, 0, 1e6), Device(1, 0, 20), Device(1, 0, 1e6)})) ==
        Approx(120).epsilon(1e-3));
}

TEST_CASE("larger micro-batches and parts of the width count where they are faster") {
  PlanningProblem problem = Of({Device(1, 4)});
  problem.micro_batch_sizes = {1, 2, 4};  // of six sequences there are no fours
  problem.devices[0].times.push_back(Device(1.5, 10).times[0]);
  problem.devices[0].times.push_back(Device(0.1, 0.1).times[0]);
  CHECK(WorkSeconds(problem) == Approx(6 * (10 * 0.75 + 4)));
  ShareCost half{.share = {{0, 1}, {0, 16}, {0, 50}}};
  half.times = {Device(0.3, 1.5).times[0], Device(1.5, 10).times[0], Device(1.5, 10).times[0]};
  problem.devices[0].shares.push_back(half);
  CHECK(WorkSeconds(problem) == Approx(6 * (10 * 0.6 + 3)));
}

TEST_CASE("micro-batches cut into parts take their gradients of weights at once") {
  PlanningProblem problem = Of({Device(4, 4)});
  ShareCost half{.share = {{0, 1}, {0, 16}, {0, 50}}};
  half.times = {Device(0, 1.5).times[0], Device(0, 10).times[0]};
  half.times[0].layer = {
      .forward_seconds = 0.2, .backward_seconds = 0.6, .weight_gradient_seconds = 0.2, .split_seconds = 0.05};
  half.times[1].layer = {.forward_seconds = 1, .backward_seconds = 1, .weight_gradient_seconds = 0.1};
  SECTION("two parts of one sequence each") {
    problem.micro_batch_sizes = {1, 2};
    problem.devices[0].times.push_back(Device(8, 8).times[0]);
    problem.devices[0].shares.push_back(half);
    // Of the half of a layer 0.65 s a sequence, and 0.1 s for both.
    CHECK(WorkSeconds(problem) == Approx(6 * (10 * (0.65 + 0.1 / 2) / 0.5 + 3)));
  }
  SECTION("nothing to cut") {
    half.times.pop_back();
    problem.devices[0].shares.push_back(half);
    CHECK(WorkSeconds(problem) == Approx(6 * (10 * 0.8 / 0.5 + 3)));
  }
}

TEST_CASE("however many devices there are a micro-batch goes through all blocks and back") {
  PlanningProblem problem = Of(std::vector<DeviceCost>(100, Device(1, 4, 2)));
  CHECK(WorkSeconds(problem) == Approx(10 + 4 + 2));
  problem.devices[7] = Device(0.5, 8, 2);
  CHECK(WorkSeconds(problem) == Approx(5 + 4 + 2));
  // Gradients of weights may be put off, and a part of the width takes a part of the time.
  problem.devices[7].times[0].layer.weight_gradient_seconds = 0.2;
  CHECK(WorkSeconds(problem) == Approx(3 + 4 + 2));
  ShareCost half{.share = {{0, 1}, {0, 16}, {0, 50}}};
  half.times = {Device(0.2, 3, 1).times[0]};
  problem.devices[3].shares.push_back(half);
  CHECK(WorkSeconds(problem) == Approx(2 + 3 + 1));
}

TEST_CASE("no plan is faster, and layers alone take less", "[property]") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const PlanningProblem problem = RandomProblem(seed);
    const double seconds = WorkSeconds(problem);
    CHECK(seconds > 0);
    const auto chosen = ChoosePlan(problem);
    if (chosen.ok()) CHECK(seconds <= chosen->step_seconds * (1 + 1e-9));
    PlanningProblem layers = problem;
    for (DeviceCost& device : layers.devices) {
      for (BlockTimes& times : device.times) times.head = times.embedding = {};
    }
    CHECK(WorkSeconds(layers) <= seconds * (1 + 1e-9));
  }
}

}  // namespace
}  // namespace medley
