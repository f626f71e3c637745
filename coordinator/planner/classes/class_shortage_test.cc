#include "coordinator/planner/classes/class_shortage.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/planner/classes/class_fit.h"
#include "coordinator/planner/classes/many_devices.h"
#include "runtime/base/bytes.h"
#include "runtime/ir/plan/plan.h"
#include "runtime/ir/program/memory.h"

namespace medley {
namespace {

using Catch::Contains;

constexpr int64_t kLayerElements = 12 * 64 * 64 + 13 * 64;
constexpr int64_t kElementBytes = 16;  // with its gradient and both moments

void SetMemory(Bytes memory, PlanningProblem& problem) {
  for (DeviceCost& device : problem.devices) device.room.memory = memory;
}

PlanningProblem TooSmall(int devices, int layers) {
  PlanningProblem problem = HostsOfTwo(devices, layers);
  SetMemory(KiB(100), problem);
  return problem;
}

// Twenty of them, on each of which whole replicas of eight layers have to be.
PlanningProblem OfOneStage() {
  PlanningProblem problem = TooSmall(20, 8);
  problem.constraints.max_stages = 1;
  return problem;
}

// As the program has it that one device runs by itself.
RankMemory MemoryAlone(const PlanningProblem& problem, int micro_batch_sequences, const UnitSaving& saving) {
  Plan alone;
  alone.units.push_back({{"h0/0"}, {{0, problem.shape.model.blocks()}}});
  saving.Set(alone.units[0]);
  alone.routes.push_back(
      {{0}, problem.shape.global_batch_sequences / micro_batch_sequences, micro_batch_sequences});
  return MemoryOfRank(alone, 0, problem.shape);
}
Bytes BytesAlone(const PlanningProblem& problem, const UnitSaving& saving = {}) {
  return MemoryAlone(problem, 1, saving).total();
}

TEST_CASE("what a stage lacks is said with the changes that would make room") {
  PlanningProblem problem = OfOneStage();
  const Bytes needed = BytesAlone(problem), memory = {needed.value / 4 * 3};
  SetMemory(memory, problem);
  const std::string lacking = FormatBytes(needed - memory);
  CHECK(
      WhyNoneByClasses(problem) ==
      absl::StrCat("no plan fits the memory of 20 devices in 1 class: what comes nearest, 1 route of 1 "
                   "stage with micro-batches of 1, lacks ",
                   lacking,
                   " on h0/0 (alike) in stage 1, which has the embedding and 8 of 8 layers and the head; of ",
                   FormatBytes(memory), " it needs ", FormatBytes(needed),
                   " as it is; there would be room with ways to save memory, which "
                   "constraints.saves_memory does not allow, or with more stages than "
                   "constraints.max_stages allows, 1, or with units of 2 devices, of whose shares some have "
                   "not been measured, or with ",
                   lacking, " more memory on every device"));
  const std::string remedies = RemediesByClasses(problem);
  CHECK_THAT(remedies, Catch::StartsWith("; there would be room with ways to save memory, "));
  CHECK_THAT(WhyNoneByClasses(problem), Catch::EndsWith(remedies));
  SetMemory(needed, problem);
  CHECK(RemediesByClasses(problem) == "");
}

TEST_CASE("smaller micro-batches and shorter sequences are named where they are enough") {
  PlanningProblem problem = OfOneStage();
  problem.shape.model.layers = 2;
  problem.shape.model.context = problem.shape.sequence = 512;
  SetMemory(BytesAlone(problem), problem);
  problem.micro_batch_sizes = {4};
  const std::string why = WhyNoneByClasses(problem);
  CHECK_THAT(why, Contains(absl::StrCat(" it needs ", FormatBytes(MemoryAlone(problem, 4, {}).total()),
                                        " as it is; ")) &&
                      Contains("with micro-batches of 1 sequence instead of 4 "
                               "(constraints.micro_batch_sizes)") &&
                      Contains("with batch.sequence_length 128 instead of 512"));
  // Not even these.
  SetMemory(KiB(100), problem);
  CHECK_THAT(WhyNoneByClasses(problem), !Contains("micro_batch_sizes") && !Contains("sequence_length"));
}

TEST_CASE("each way to need less is said with what it needs") {
  PlanningProblem problem = OfOneStage();
  problem.constraints.saves_memory = true;
  problem.constraints.max_routes = 1;
  for (DeviceCost& device : problem.devices)
    device.fetch_bytes_per_second = device.store_bytes_per_second = 1e6;
  const UnitSaving windows = {.window_layers = 2};
  const auto with = [&](Recompute recompute, int window_layers) {
    return BytesAlone(problem, {.recompute = recompute, .window_layers = window_layers});
  };
  const auto states = [](const RankMemory& memory) {
    return memory.parameters + memory.gradients + memory.optimizer;
  };
  // Two of the eight layers are on the device.
  CHECK((states(MemoryAlone(problem, 1, {})) - states(MemoryAlone(problem, 1, windows))).value ==
        6 * kLayerElements * kElementBytes);
  const Bytes recomputed = std::min(with(Recompute::kAllButAttention, 0), with(Recompute::kLayers, 0));
  const Bytes together = std::min({recomputed, with(Recompute::kNone, 2),
                                   with(Recompute::kAllButAttention, 2), with(Recompute::kLayers, 2)});
  CHECK_THAT(
      WhyNoneByClasses(problem),
      Contains(absl::StrCat(", lacks ", FormatBytes(together - KiB(100)), " on h0/0 (alike) ")) &&
          Contains(absl::StrCat("; of 100.0 KiB it needs ", FormatBytes(BytesAlone(problem)), " as it is, ",
                                FormatBytes(recomputed), " with recomputed layers, ",
                                FormatBytes(with(Recompute::kNone, 2)), " with layers in host memory, ",
                                FormatBytes(together), " with the best of these together; ")) &&
          !Contains("copies") && !Contains("more host memory"));
  // What is not known of hosts, and of what they have too little.
  SetMemory(together, problem);
  CHECK(FitsInMeasuredUnits(problem));
  for (DeviceCost& device : problem.devices) device.host_memory = MiB(2);
  CHECK_THAT(WhyNoneByClasses(problem),
             Contains("more host memory than the 1.0 MiB that h0/0 (alike) has of it") &&
                 !Contains("with layers in host memory"));
  for (DeviceCost& device : problem.devices) {
    device.host_memory = {};
    device.fetch_bytes_per_second = 0;
  }
  CHECK_THAT(WhyNoneByClasses(problem),
             Contains("host memory, if copies to and from it were measured on h0/0 (alike)"));
}

TEST_CASE("routes that share the optimizer's state are said to, and how many more would") {
  PlanningProblem problem = OfOneStage();
  problem.constraints.saves_memory = true;
  const Bytes needed = BytesAlone(problem);
  // Of sixteen each is taken to have 1.1 sixteenths of the moments of 405,120 parameters.
  const int64_t moments = 8 * (64 * 64 + 16 * 64 + 8 * kLayerElements + 2 * 64), own = 222'816;
  REQUIRE(moments == 3'240'960);
  CHECK_THAT(WhyNoneByClasses(problem),
             Contains("what comes nearest, 16 routes of 1 stage each with micro-batches of 1, lacks ") &&
                 Contains(absl::StrCat(" ", FormatBytes({needed.value - moments + own}),
                                       " with the optimizer's state shared by 16 routes, ")));
  SetMemory({needed.value / 4 * 3}, problem);
  CHECK(FitsInMeasuredUnits(problem));
  problem.constraints.max_routes = 1;
  CHECK_THAT(WhyNoneByClasses(problem), Contains("more routes than constraints.max_routes allows, 1"));
}

TEST_CASE("how many more devices would do is said") {
  // Two layers a device and no three, so that 44 need 22 devices.
  PlanningProblem problem = TooSmall(18, 44);
  problem.shape.sequence = 1;
  SetMemory({2 * kLayerElements * kElementBytes + 400'000}, problem);
  CHECK_THAT(WhyNoneByClasses(problem),
             Contains("what comes nearest, 1 route of 18 stages with micro-batches of 1, lacks ") &&
                 Contains("which has 3 of 44 layers") &&
                 Contains("with 4 devices more such as h0/0 (alike), or with "));
  const std::optional<NearestFit> nearest = NearestByClasses(problem);
  REQUIRE(nearest.has_value());
  CHECK(nearest->stage.layers == 3);
  CHECK(MoreDevicesToFit(problem, *nearest) == 4);
  // With what the nearest lacks it fits, and not with a hundredth less.
  const Bytes memory = problem.devices[0].room.memory;
  SetMemory(memory + nearest->lacking, problem);
  CHECK(FitsInMeasuredUnits(problem));
  SetMemory(memory + Bytes{nearest->lacking.value / 100 * 99}, problem);
  CHECK_FALSE(FitsInMeasuredUnits(problem));
}

TEST_CASE("under gpipe it is said that one of 1f1b would keep less") {
  PlanningProblem problem = OfOneStage();
  problem.constraints.schedules = {Schedule::kGPipe};
  SetMemory(BytesAlone(problem), problem);
  CHECK_THAT(WhyNoneByClasses(problem), Contains("one_forward_one_backward in constraints.schedules"));
}

TEST_CASE("where no device was measured, or it was stopped, no figures are given") {
  PlanningProblem problem = OfOneStage();
  const std::atomic<bool> stop = true;
  CHECK(WhyNoneByClasses(problem, &stop) == "no plan of 20 devices in 1 class was found");
  for (DeviceCost& device : problem.devices) device.times.clear();
  CHECK_THAT(WhyNoneByClasses(problem), Contains("none that the constraints allow was measured"));
}

}  // namespace
}  // namespace medley
