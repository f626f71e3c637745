#include "coordinator/predictor/predict.h"

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "coordinator/predictor/alike_routes.h"
#include "coordinator/predictor/stand_ins.h"
#include "coordinator/predictor/step_simulator.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/model/parameters.h"

namespace medley {
namespace {

// Of a plan: of all ranks, or of those that stand for all.
class Simulation {
 public:
  Simulation(const PlanningProblem& problem, const Plan& plan, int most_simulated) : plan_(plan) {
    if (RankCount(plan) > most_simulated) {
      alike_.emplace(problem);
      if (absl::StatusOr<StandInSimulation> some = SimulateByStandIns(*alike_, plan); some.ok())
        some_ = *std::move(some);
    }
    simulator_.emplace(some_ ? some_->problem : problem);
  }

  absl::StatusOr<double> Run() { return simulator_->Run(plan_, some_ ? &some_->stand_ins : nullptr); }
  const StepSimulator& simulator() const { return *simulator_; }
  Rank StandInOf(Rank rank) const { return some_ ? some_->stand_ins.of[rank] : rank; }

 private:
  const Plan& plan_;
  std::optional<AlikeRoutePredictor> alike_;
  std::optional<StandInSimulation> some_;
  std::optional<StepSimulator> simulator_;
};

RankPrediction PredictRank(const PlanningProblem& problem, const Plan& plan, const StepSimulator& simulator,
                           Rank rank) {
  const StepProgram& program = simulator.programs()[rank];
  const DeviceCost& device = *FindDevice(problem, DeviceOf(plan, rank));
  RankPrediction prediction{.device = device.name, .memory_limit = device.room.memory};
  for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
    const InstructionTime time = simulator.TimeOf(rank, i);
    prediction.timeline.push_back(time);
    const double computing_seconds = simulator.ComputingSeconds(rank, i);
    prediction.busy_seconds += computing_seconds;
    if (program.instructions[i].stream == Stream::kCompute)
      prediction.exchange_seconds += time.end_seconds - time.start_seconds - computing_seconds;
  }
  prediction.memory = MemoryOfProgram(plan, program, problem.shape);
  prediction.peak_memory = PeakMemory(RoomOf(problem, plan, rank), prediction.memory);
  return prediction;
}

}  // namespace

Bytes PeakMemory(const DeviceRoom& room, const RankMemory& memory) {
  return memory.total() + room.WorkspaceFor(memory.micro_batch_sequences) + room.CopiesOf(memory.multiplied);
}

DeviceRoom RoomOf(const DeviceCost& device, const ModelConfig& model, const ModelShare& share) {
  const std::optional<RankCosts> costs = CostsOf(device, model, share);
  return costs ? costs->room : device.room;
}

DeviceRoom RoomOf(const PlanningProblem& problem, const Plan& plan, Rank rank) {
  return RoomOf(*FindDevice(problem, DeviceOf(plan, rank)), problem.shape.model,
                ShareOf(plan, rank, problem.shape.model));
}

bool FitsMemory(const PlanningProblem& problem, const Plan& plan) {
  std::unordered_map<std::string, int> device_by_name;  // of many: one look at each
  if (RankCount(plan) > kMostToldAlone) device_by_name = DevicesByName(problem);
  std::map<int, Bytes> on_host;
  RankMemories memories(plan, problem.shape);
  Rank rank = 0;
  for (const Unit& unit : plan.units) {
    const std::vector<ModelShare> shares = SharesOf(unit, problem.shape.model);
    for (size_t member = 0; member < unit.devices.size(); ++member, ++rank) {
      const std::string& name = unit.devices[member];
      const DeviceCost& device =
          device_by_name.empty() ? *FindDevice(problem, name) : problem.devices[device_by_name.at(name)];
      const RankMemory& memory = memories.Of(rank);
      if (!Fits(memory, RoomOf(device, problem.shape.model, shares[member]))) return false;
      if (memory.host == Bytes{0}) continue;
      // One that is alone on its host has all of its memory.
      Bytes alone;
      Bytes& needed = device.host < 0 ? alone : on_host[device.host];
      needed += memory.host;
      if (device.host_memory > Bytes{0} && needed > device.host_memory) return false;
    }
  }
  return true;
}

absl::StatusOr<StepPrediction> PredictStep(const PlanningProblem& problem, const Plan& plan,
                                           int most_simulated) {
  Simulation simulation(problem, plan, most_simulated);
  StepPrediction prediction;
  ASSIGN_OR_RETURN(prediction.step_seconds, simulation.Run());
  for (Rank rank = 0; rank < RankCount(plan); ++rank) {
    const Rank stand_in = simulation.StandInOf(rank);
    prediction.stand_ins.push_back(stand_in);
    if (stand_in == rank) {
      prediction.ranks.push_back(PredictRank(problem, plan, simulation.simulator(), rank));
    } else {
      prediction.ranks.emplace_back();
    }
  }
  const std::vector<std::string> devices = DevicesOf(plan);
  for (Rank rank = 0; rank < RankCount(plan); ++rank) {
    const Rank stand_in = prediction.stand_ins[rank];
    if (stand_in == rank) continue;
    prediction.ranks[rank] = prediction.ranks[stand_in];
    prediction.ranks[rank].device = devices[rank];
  }
  const double tokens = static_cast<double>(problem.shape.global_batch_sequences) * problem.shape.sequence;
  prediction.tokens_per_second = prediction.step_seconds > 0 ? tokens / prediction.step_seconds : 0;
  return prediction;
}

absl::StatusOr<double> PredictStepSeconds(const PlanningProblem& problem, const Plan& plan,
                                          int most_simulated) {
  return Simulation(problem, plan, most_simulated).Run();
}

}  // namespace medley
