#include "tests/same_loss/training_harness.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "comm/loopback/loopback_fabric.h"
#include "kernels/reference/reference_backend.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/exec/step_executor.h"

namespace medley {
namespace {

using Part = ParameterArena::Part;

absl::StatusOr<Device> OpenReference(int unit) {
  return ReferenceBackend().open(
      {.name = "test", .backend = "reference", .cores = {0}, .memory_limit = GiB(1)});
}

absl::Status TrainUnit(const TrainingSpec& spec, const Plan& plan, int unit, Transport& transport,
                       WindowSource& windows, const StartFunction& start, const DeviceOpener& open,
                       TrainingRun& run) {
  ASSIGN_OR_RETURN(Device device, open(unit));
  const StepProgram program = CompileStep(plan, unit, spec.shape, Purpose::kTrain);
  ASSIGN_OR_RETURN(const std::unique_ptr<ModelShard> shard,
                   ModelShard::Create(device, ShardOptionsOf(plan, program, spec.shape, spec.precision)));
  RETURN_IF_ERROR(start ? start(shard->arena()) : shard->arena().Initialise(spec.seed));
  StepExecutor executor({.spec = spec, .plan = plan, .rank = unit, .stall_timeout = absl::Seconds(60)},
                        *shard, transport, windows);
  for (int64_t step = 1; step <= spec.steps; ++step) {
    ASSIGN_OR_RETURN(const StepOutcome outcome, executor.TrainStep(step));
    run.losses.push_back(outcome.loss);
    run.gradient_norms.push_back(outcome.gradient_norm);
  }
  ASSIGN_OR_RETURN(run.validation_loss, executor.Evaluate());
  for (const PlacedParameter& placed : shard->arena().layout().parameters) {
    std::vector<float>& values = run.parameters[placed.spec.name];
    values.resize(placed.spec.elements);
    RETURN_IF_ERROR(shard->arena().Read(Part::kParameter, placed.spec.name, absl::MakeSpan(values)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TrainingRun> TrainUnderPlan(const TrainingSpec& spec, const Plan& plan,
                                           const WindowFactory& windows, const StartFunction& start,
                                           const DeviceOpener& open) {
  const int units = static_cast<int>(plan.units.size());
  LoopbackFabric fabric(units);
  std::vector<TrainingRun> runs(units);
  std::vector<absl::Status> statuses(units);
  std::vector<std::thread> threads;
  for (int unit = 0; unit < units; ++unit) {
    threads.emplace_back([&, unit] {
      const std::unique_ptr<Transport> transport = fabric.Join(unit);
      const std::unique_ptr<WindowSource> source = windows();
      statuses[unit] = TrainUnit(spec, plan, unit, *transport, *source, start,
                                 open ? open : DeviceOpener(OpenReference), runs[unit]);
      if (!statuses[unit].ok()) fabric.MarkGone(unit);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int unit = 0; unit < units; ++unit) {
    if (!statuses[unit].ok()) return Annotate(statuses[unit], absl::StrCat("unit ", unit));
  }
  for (int unit = 1; unit < units; ++unit) {
    if (runs[unit].losses != runs[0].losses) return absl::InternalError("units report different losses");
    for (auto& [name, values] : runs[unit].parameters) {
      const auto [at, is_new] = runs[0].parameters.try_emplace(name, values);
      if (!is_new && std::memcmp(at->second.data(), values.data(), values.size() * sizeof(float)) != 0) {
        return absl::InternalError(absl::StrCat("holders of ", name, " differ"));
      }
    }
  }
  return std::move(runs[0]);
}

Plan SingleDevicePlan(const TrainingShape& shape, int micro_batch) {
  return {.units = {{.devices = {"test/0"}, .chunks = {{0, shape.model.blocks()}}}},
          .routes = {{.units = {0},
                      .micro_batches = shape.global_batch_sequences / micro_batch,
                      .micro_batch_sequences = micro_batch}}};
}

Plan RandomPlan(uint64_t seed, const TrainingShape& shape, int max_devices) {
  std::mt19937_64 random(seed);
  const auto draw = [&](int low, int high) { return low + static_cast<int>(random() % (high - low + 1)); };
  Plan plan{.schedule = static_cast<Schedule>(draw(0, kSchedules - 1))};
  int left = shape.global_batch_sequences;
  int devices = draw(1, max_devices);
  while (devices > 0) {
    const bool last = devices == 1 || left == 1 || draw(0, 2) == 0;
    const int stages = std::min(last ? devices : draw(1, devices - 1), shape.model.blocks());
    const int sequences = last ? left : draw(1, left - 1);
    std::vector<int> divisors;  // each route has a micro-batch size of its own
    for (int b = 1; b <= sequences; ++b) {
      if (sequences % b == 0) divisors.push_back(b);
    }
    const int size = divisors[draw(0, static_cast<int>(divisors.size()) - 1)];
    Route route{.micro_batches = sequences / size, .micro_batch_sequences = size};
    std::vector<int> cuts = {0, shape.model.blocks()};
    while (static_cast<int>(cuts.size()) < stages + 1) {
      const int cut = draw(1, shape.model.blocks() - 1);
      if (std::find(cuts.begin(), cuts.end(), cut) == cuts.end()) cuts.push_back(cut);
    }
    std::sort(cuts.begin(), cuts.end());
    for (int s = 0; s < stages; ++s) {
      route.units.push_back(static_cast<int>(plan.units.size()));
      plan.units.push_back(
          {.devices = {absl::StrCat("test/", plan.units.size())}, .chunks = {{cuts[s], cuts[s + 1]}}});
    }
    left -= sequences;
    devices -= stages;
    plan.routes.push_back(std::move(route));
    if (last) break;
  }
  return plan;
}

}  // namespace medley
