#include "coordinator/predictor/task_simulation.h"

#include <catch2/catch.hpp>
#include <utility>

namespace medley {
namespace {

// Two devices of two cores each, on one host where they slow each other down to two thirds.
PlanningProblem TwoDevices() {
  PlanningProblem problem;
  for (int d = 0; d < 2; ++d) {
    DeviceCost& device = problem.devices.emplace_back();
    device.processor = d;
    device.host = 0;
    device.cores = 2;
    device.shared_with = 1;
    device.shared_slowdown = 1.5;
  }
  problem.links = DeviceLinks(2);
  return problem;
}

struct Simulated {
  explicit Simulated(PlanningProblem of) : problem(std::move(of)), ways(problem) {}
  bool Run() { return TaskSimulation(problem, ways, graph).Run(); }
  int Compute(int device, double seconds) {
    return graph.Add({.resource = TaskResource::kProcessor, .work_seconds = seconds, .from = device});
  }
  int Send(int from, int to, double latency_seconds, double seconds) {
    return graph.Add({.resource = TaskResource::kLink,
                      .latency_seconds = latency_seconds,
                      .work_seconds = seconds,
                      .from = from,
                      .to = to});
  }
  double Start(int task) const { return graph.tasks[task].start_seconds; }
  double End(int task) const { return graph.tasks[task].end_seconds; }

  const PlanningProblem problem;
  const SharedWays ways;
  TaskGraph graph;
};

TEST_CASE("a task starts when all that it waits for have ended") {
  Simulated step(TwoDevices());
  const int one = step.graph.Add({.work_seconds = 2}), other = step.graph.Add({.work_seconds = 3});
  const int both = step.graph.Add({.work_seconds = 1});
  step.graph.AddEdge(one, both);
  step.graph.AddEdge(other, both);
  REQUIRE(step.Run());
  CHECK(step.End(one) == 2);
  CHECK(step.Start(both) == 3);
  CHECK(step.End(both) == 4);
}

TEST_CASE("devices of a host slow each other down while both compute") {
  Simulated step(TwoDevices());
  const int longer = step.Compute(0, 4), shorter = step.Compute(1, 2);
  REQUIRE(step.Run());
  CHECK(step.End(shorter) == Approx(3));  // 2 x 1.5
  CHECK(step.End(longer) == Approx(5));   // 2 of 4 in these 3 seconds
}

TEST_CASE("a copy is a thread beside those that compute") {
  Simulated step(TwoDevices());
  const int computation = step.Compute(0, 4);
  step.graph.thread_devices = {0};
  const int copy =
      step.graph.Add({.resource = TaskResource::kShared, .work_seconds = 2, .from = 0, .end_thread = 1});
  REQUIRE(step.Run());
  CHECK(step.End(copy) == Approx(3));  // three threads on two cores
  CHECK(step.End(computation) == Approx(5));
}

TEST_CASE("messages of one sender share its end but not their latency") {
  Simulated step(TwoDevices());
  const int one = step.Send(0, 1, 1, 2), other = step.Send(0, 1, 2, 2);
  REQUIRE(step.Run());
  CHECK(step.End(one) == Approx(4));    // one second alone, two shared
  CHECK(step.End(other) == Approx(5));  // two shared, one alone
}

TEST_CASE("tasks that wait for each other in a circle never end") {
  Simulated step(TwoDevices());
  const int first = step.graph.Add({.work_seconds = 1});
  const int one = step.graph.Add(), other = step.graph.Add();
  step.graph.AddEdge(one, other);
  step.graph.AddEdge(other, one);
  CHECK_FALSE(step.Run());
  CHECK(step.End(first) == 1);
  CHECK(step.End(one) < 0);
  CHECK(step.End(other) < 0);
}

}  // namespace
}  // namespace medley
