#include "coordinator/predictor/step_simulator.h"

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"

namespace medley {
namespace {

TEST_CASE("a plan of more messages than can be simulated is refused, however many they are") {
  constexpr int kUnits = 17, kDegree = 8;
  PlanningProblem problem;
  problem.shape.model = {
      .layers = kUnits - 2, .hidden = 64, .heads = 8, .feed_forward = 256, .vocabulary = 80, .context = 16};
  problem.shape.sequence = 16;
  problem.shape.global_batch_sequences = 1'000'000;
  problem.micro_batch_sizes = {1};
  Plan plan;
  Route& route = plan.routes.emplace_back();
  for (int u = 0; u < kUnits; ++u) {
    Unit& unit = plan.units.emplace_back();
    unit.chunks = {{u, u + 1}};
    for (int member = 0; member < kDegree; ++member) {
      DeviceCost& device = problem.devices.emplace_back();
      device.name = absl::StrCat("n", u, "/", member);
      device.processor = u * kDegree + member;
      device.host = u;
      unit.devices.push_back(device.name);
    }
    route.units.push_back(u);
  }
  problem.links = DeviceLinks(kUnits * kDegree);
  route.micro_batches = 1'000'000;
  route.micro_batch_sequences = 1;
  StepSimulator simulator(problem);
  const absl::Status refused = simulator.Run(plan).status();
  CHECK(absl::IsInvalidArgument(refused));
  CHECK_THAT(std::string(refused.message()),
             Catch::Contains("1000000 micro-batches") && Catch::Contains("17 stages") &&
                 Catch::Contains("8 devices") && Catch::Contains("536870912 at most"));
}

}  // namespace
}  // namespace medley
