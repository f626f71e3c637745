#include "coordinator/planner/classes/stage_table.h"

#include <catch2/catch.hpp>

#include "coordinator/planner/classes/many_devices.h"
#include "coordinator/predictor/alike_routes.h"

namespace medley {
namespace {

// ManyDevices that save memory and whose copies have been measured, of enough layers for long pipelines.
PlanningProblem Saving(uint64_t seed) {
  PlanningProblem problem = ManyDevices(seed, 12);
  problem.constraints.saves_memory = true;
  problem.shape.model.layers = 12;
  for (DeviceCost& device : problem.devices)
    device.fetch_bytes_per_second = 3e5, device.store_bytes_per_second = 4e5;
  return problem;
}

constexpr int kRoutes = 2;  // which divides the batch

// One of them, of stages with a layer each but for one, which is `stage` on the first devices of its kind.
Plan Around(const StageTable& table, const StageForm& stage) {
  const PlanningProblem& problem = table.problem();
  const ModelConfig& model = problem.shape.model;
  const StageKind& kind = table.kinds()[stage.kind];
  Plan plan;
  plan.schedule = ScheduleByClasses(problem.constraints);
  Route route{{}, 2 * stage.from_end + 4, problem.micro_batch_sizes[stage.size]};
  if (plan.schedule == Schedule::kGPipe)
    route.micro_batches = problem.shape.global_batch_sequences / route.micro_batch_sequences / kRoutes;
  const int behind = stage.from_end - 1;
  const BlockId end = model.blocks() - behind,
                first = stage.first ? BlockId(0) : BlockId(end - stage.layers - (behind == 0 ? 1 : 0));
  if (!stage.first) plan.units.push_back({.devices = {"before"}, .chunks = {{0, first}}});
  Unit own{.chunks = {{first, end}}, .activations = kind.cost.activations};
  for (const int device : kind.devices) own.devices.push_back(problem.devices[device].name);
  stage.saving.Set(own);
  plan.units.push_back(std::move(own));
  for (int s = 0; s < behind; ++s)
    plan.units.push_back(
        {.devices = {absl::StrCat("behind ", s)}, .chunks = {{BlockId(end + s), BlockId(end + s + 1)}}});
  for (int u = 0; u < static_cast<int>(plan.units.size()); ++u) route.units.push_back(u);
  plan.routes = {std::move(route)};
  return plan;
}

TEST_CASE("stages keep and store what the step program does, whichever way they save memory") {
  int stored = 0, by_rows = 0, some_layers = 0;
  const Schedule schedule = GENERATE(Schedule::kOneForwardOneBackward, Schedule::kGPipe);
  const bool gpipe = schedule == Schedule::kGPipe;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    PlanningProblem problem = Saving(seed);
    problem.constraints.schedules = {schedule};
    const AlikeRoutePredictor predictor(problem);
    StageMemories memories(problem);
    StageTable table(problem, predictor.classes(), memories, 1);
    const int layers = problem.shape.model.layers;
    for (int k = 0; k < static_cast<int>(table.kinds().size()); ++k) {
      const StageKind& kind = table.kinds()[k];
      for (UnitSaving saving : table.WaysByTime(k, 0)) {
        for (const int from_end : {1, 2, 3, 4, 7}) {
          for (const bool first : {false, true}) {
            // Of all layers, or of some, of which what takes as much more each is told.
            saving.recomputed_layers =
                saving.recompute == Recompute::kNone ? 0 : (from_end + (first ? 1 : 0)) % 3;
            StageForm stage{.kind = k, .layers = 3, .first = first, .from_end = from_end, .saving = saving};
            if (first) stage.layers = layers - std::max(0, from_end - 2);
            const Plan plan = Around(table, stage);
            INFO("seed " << seed << ", " << from_end << " from the end: " << Describe(plan));
            const Rank rank = first ? 0 : 1;
            const StepProgram program = CompileStep(plan, rank, problem.shape, Purpose::kTrain);
            const RankMemory counted = memories.Of(kind, stage, kRoutes),
                             allocated = MemoryOfProgram(plan, program, problem.shape);
            CHECK(counted.activations == allocated.activations);
            some_layers += saving.recomputed_layers > 0;
            CHECK(counted.host == allocated.host);
            CHECK(counted.total() == allocated.total());
            const bool stores = saving.activations_home == ActivationsHome::kHost &&
                                (gpipe || from_end >= kFewestFromEndToStore);
            CHECK((allocated.host > Bytes{0}) == stores);
            if (!stores) continue;
            ++stored;
            by_rows += saving.sequence_parallel ? 1 : 0;
            if (gpipe) continue;  // nothing is stored there near the end, so that no pass knows it
            Bytes of_one;         // which all micro-batches have that are stored
            for (const Instruction& instruction : program.instructions) {
              if (instruction.kind == InstructionKind::kStore) of_one = instruction.bytes;
            }
            StageForm at_least = stage;  // whatever else it takes
            const double copied = static_cast<double>(of_one.value) / 3e5,
                         passes = table.PassSeconds(at_least);
            CHECK(passes >= Approx(copied));
            at_least.saving.activations_home = ActivationsHome::kDevice;
            CHECK(passes == Approx(std::max(copied, table.PassSeconds(at_least))));
          }
        }
      }
    }
  }
  CHECK(stored > 50);
  CHECK(by_rows > 10);
  CHECK(some_layers > 50);
}

TEST_CASE("ways to save are told from what takes the least time, and each has room for more layers") {
  int several = 0, fewer = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    PlanningProblem problem = Saving(seed);
    for (DeviceCost& device : problem.devices) {
      device.room.memory = KiB(5000);
      for (ShareCost& share : device.shares) share.room.memory = KiB(3500);
    }
    const AlikeRoutePredictor predictor(problem);
    StageMemories memories(problem);
    StageTable table(problem, predictor.classes(), memories, 1);
    for (int k = 0; k < static_cast<int>(table.kinds().size()); ++k) {
      INFO("seed " << seed << ", kind " << k);
      StageForm stage{.kind = k, .size = 1, .layers = 1, .from_end = 6};
      double seconds = 0;
      int layers = -1;
      const auto ways = table.Ways(stage);
      several += ways.size() > 2 ? 1 : 0;
      for (const auto& [saving, most] : ways) {
        stage.saving = saving;
        CHECK(table.PassSeconds(stage) >= seconds);
        seconds = table.PassSeconds(stage);
        CHECK(most > layers);
        layers = most;
      }
      // What is chosen takes no longer than any that fits.
      for (stage.layers = 1; stage.layers <= layers; ++stage.layers) {
        const std::optional<UnitSaving> least = table.LeastSaving(stage);
        REQUIRE(least.has_value());
        stage.saving = *least;
        const double of_least = table.PassSeconds(stage);
        if (least->recomputed_layers > 0) {
          ++fewer;
          CHECK(table.ShortageOf(stage) <= Bytes{0});
          stage.saving.recomputed_layers = least->recomputed_layers - 1;
          if (least->recomputed_layers > 1) CHECK(table.ShortageOf(stage) > Bytes{0});
        }
        for (const auto& [saving, most] : ways) {
          stage.saving = saving;
          if (stage.layers <= most) CHECK(of_least <= table.PassSeconds(stage) * (1 + 1e-12));
        }
      }
    }
  }
  CHECK(several > 6);
  CHECK(fewer > 10);
}

}  // namespace
}  // namespace medley
