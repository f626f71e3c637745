#include "coordinator/planner/techniques/order_problem.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "coordinator/planner/techniques/stage_buffers.h"
#include "coordinator/predictor/predict.h"
#include "coordinator/predictor/step_simulator.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/model/block_sizes.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/plan/unit_op.h"
#include "runtime/ir/program/memory.h"
#include "runtime/ir/program/schedule.h"

namespace medley {
namespace {

using Kind = UnitOp::Kind;

// In the order of 1F1B, each backward in two.
Plan WithGradientsApart(const Plan& plan) {
  std::vector<UnitOrder> orders = ScheduleOrders(Schedule::kOneForwardOneBackward, NominalPipeline(plan));
  for (UnitOrder& order : orders) {
    UnitOrder apart;
    for (const UnitOp& op : order) {
      if (op.kind != Kind::kBackward) {
        apart.push_back(op);
        continue;
      }
      apart.push_back({Kind::kInputGradient, op.visit, op.micro_batch});
      apart.push_back({Kind::kWeightGradient, op.visit, op.micro_batch});
    }
    order = std::move(apart);
  }
  return WithOrders(plan, std::move(orders));
}

// Of all micro-batches of a step.
struct VisitSeconds {
  double forward = 0, input_gradient = 0, weight_gradient = 0, send_activation = 0, send_gradient = 0;

  double& Of(InstructionKind kind) {
    switch (kind) {
      case InstructionKind::kGatherActivation:
      case InstructionKind::kForward:
        return forward;
      case InstructionKind::kWeightGradient:
        return weight_gradient;
      case InstructionKind::kSendActivation:
        return send_activation;
      case InstructionKind::kSendGradient:
        return send_gradient;
      default:  // where a backward is whole, all of it
        return input_gradient;
    }
  }
};

std::vector<VisitSeconds> SecondsOf(const StepSimulator& simulator, Rank rank) {
  const StepProgram& program = simulator.programs()[rank];
  std::vector<VisitSeconds> seconds(program.visits.size());
  for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
    const Instruction& instruction = program.instructions[i];
    const bool sends = instruction.kind == InstructionKind::kSendActivation ||
                       instruction.kind == InstructionKind::kSendGradient;
    if (!IsPass(instruction.kind) && !IsGather(instruction.kind) && !sends) continue;
    const InstructionTime time = simulator.TimeOf(rank, i);
    seconds[instruction.visit].Of(instruction.kind) += time.end_seconds - time.start_seconds;
  }
  return seconds;
}

// Of the mean of a step's micro-batches at each stage, the longest of its unit's ranks, by route.
using StageSeconds = std::vector<std::vector<double>>;

// Of backwards that are whole.
absl::StatusOr<StageSeconds> WholeBackwardSeconds(StepSimulator& simulator, const Plan& plan) {
  RETURN_IF_ERROR(
      simulator.Run(WithOrders(plan, ScheduleOrders(Schedule::kOneForwardOneBackward, NominalPipeline(plan))))
          .status());
  StageSeconds result;
  for (const Route& route : plan.routes) result.emplace_back(route.units.size(), 0);
  for (Rank rank = 0; rank < RankCount(plan); ++rank) {
    const Visits& visits = simulator.programs()[rank].visits;
    const std::vector<VisitSeconds> seconds = SecondsOf(simulator, rank);
    for (size_t v = 0; v < visits.size(); ++v) {
      double& longest = result[visits[v].route][visits[v].stage];
      longest = std::max(longest, seconds[v].input_gradient / visits[v].micro_batches);
    }
  }
  return result;
}

bool AnySplitTakesTime(const PlanningProblem& problem) {
  return std::any_of(problem.devices.begin(), problem.devices.end(), [](const DeviceCost& device) {
    const auto any = [](const std::vector<BlockTimes>& sizes) {
      return std::any_of(sizes.begin(), sizes.end(),
                         [](const BlockTimes& times) { return times.layer.split_seconds > 0; });
    };
    return any(device.times) || std::any_of(device.shares.begin(), device.shares.end(),
                                            [&](const ShareCost& share) { return any(share.times); });
  });
}

// What a rank keeps of a micro-batch, and what is left for all of it.
struct Keeping {
  struct OfVisit {
    int chunk = 0;
    double kept = 0, deferred = 0;  // as TimedStage
  };
  std::vector<OfVisit> visits;
  double left_bytes = 0;
};

// Of a unit that stores what its forwards keep, or a part of it (`stored`, of a micro-batch, by visit): on the device that takes a few
// buffers of each range, however many micro-batches are under way, and between the gradients of one its own; in host memory it takes
// as much as it is. What is kept of a micro-batch is then such a part of what is left on the device as it takes where less is left.
void StoreWhatForwardsKeep(const PlanningProblem& problem, const DeviceCost& device, const Unit& unit,
                           const std::vector<double>& stored, Keeping& keeping) {
  constexpr int kOnDevice = kFewestFromEndToStore - 1;
  std::vector<double> largest(unit.chunks.size(), 0);
  for (size_t v = 0; v < stored.size(); ++v) {
    double& of_chunk = largest[keeping.visits[v].chunk];
    of_chunk = std::max(of_chunk, stored[v]);
  }
  for (const double stash : largest) keeping.left_bytes -= kOnDevice * stash;
  const double on_host = HostBytesFor(problem, device);
  for (size_t v = 0; v < stored.size(); ++v) {
    Keeping::OfVisit& visit = keeping.visits[v];
    const double between = visit.deferred - (visit.kept - stored[v]);
    visit.kept = std::max(visit.kept - stored[v], keeping.left_bytes * stored[v] / on_host);
    visit.deferred = visit.kept + between;
  }
}

Keeping KeepingOf(const PlanningProblem& problem, const Plan& plan, StepProgram program) {
  const Unit& unit = plan.units[program.unit];
  const ModelConfig local = LocalModel(problem.shape.model, ShareOf(plan, program.rank, problem.shape.model));
  const RowCounts rows =
      RowCountsOf(program.buffers, int64_t{LargestMicroBatch(program.visits)} * problem.shape.sequence);
  const Dtype type = unit.activations;
  const double travelling = static_cast<double>(TensorBytes(rows.own * local.hidden, type).value);
  const LayersMadeAgain made_again =
      LastLayersMadeAgain(local, unit.chunks, unit.recompute, unit.recomputed_layers);
  Keeping keeping;
  const HomedBlocks homed = HomedBlocksOf(program.buffers, local, unit.chunks);
  std::vector<double> stored;  // of a micro-batch, by visit
  for (const Visit& visit : program.visits) {
    const BlockRange& chunk = unit.chunks[visit.chunk];
    const auto bytes = [&](BlockRange blocks) {
      return static_cast<double>(StashBytes(local, blocks, rows, type, made_again).value);
    };
    stored.push_back(bytes(homed.Of(chunk)));
    const double kept = bytes(chunk) + (visit.first() ? 0 : travelling);
    const double beside = static_cast<double>(DeferredBytes(local, chunk, rows, type).value);
    keeping.visits.push_back({visit.chunk, kept, kept + beside + (visit.last() ? 0 : travelling)});
  }
  BufferCounts& buffers = program.buffers;
  for (auto* of_chunks : {&buffers.stash, &buffers.leaving_stash, &buffers.deferred})
    std::fill(of_chunks->begin(), of_chunks->end(), 0);
  // Beside what micro-batches keep one arrives, if nothing is short; what leaves is not theirs.
  buffers.input = std::min(buffers.input, 1);
  buffers.output_gradient = std::min(buffers.output_gradient, 1);
  const RankMemory beside = MemoryOfProgram(plan, program, problem.shape);
  const Bytes left = LeftFor(beside, RoomOf(problem, plan, program.rank)) - beside.total();
  keeping.left_bytes = static_cast<double>(left.value);
  if (unit.activations_home == ActivationsHome::kHost)
    StoreWhatForwardsKeep(problem, *FindDevice(problem, DeviceOf(plan, program.rank)), unit, stored, keeping);
  return keeping;
}

}  // namespace

Plan WithOrders(Plan plan, std::vector<UnitOrder> orders) {
  plan.schedule = Schedule::kListed;
  for (size_t u = 0; u < plan.units.size(); ++u) {
    plan.units[u].order = std::move(orders[u]);
    plan.units[u].paces.clear();
  }
  return plan;
}

void SetPaces(const TimedPipeline& pipeline, Plan& plan) {
  for (Unit& unit : plan.units) unit.paces.assign(unit.chunks.size(), Pace{});
  for (size_t r = 0; r < plan.routes.size(); ++r) {
    for (const TimedStage& stage : pipeline.routes[r].stages) {
      const auto nanoseconds = [&](double seconds, int64_t least, int64_t most) {
        const double each = 1e9 * seconds / plan.routes[r].micro_batch_sequences;
        return std::clamp(static_cast<int64_t>(std::llround(each)), least, most);
      };
      Pace& pace = plan.units[stage.unit].paces[stage.chunk];
      pace.forward_nanoseconds = nanoseconds(stage.forward_seconds, 1, Pace::kMost);
      pace.input_gradient_nanoseconds = nanoseconds(stage.input_gradient_seconds, 1, Pace::kMost);
      pace.weight_gradient_nanoseconds = nanoseconds(stage.weight_gradient_seconds, 0, Pace::kMost);
      pace.split_nanoseconds = nanoseconds(stage.split_seconds, 0, pace.weight_gradient_nanoseconds);
      pace.message_nanoseconds = nanoseconds(stage.message_seconds, 0, Pace::kMost);
    }
  }
}

absl::StatusOr<OrderProblem> MakeOrderProblem(const PlanningProblem& problem, const Plan& plan) {
  StepSimulator simulator(problem);
  RETURN_IF_ERROR(simulator.Run(WithGradientsApart(plan)).status());
  OrderProblem orders;
  orders.pipeline = NominalPipeline(plan);
  std::vector<TimedRoute>& routes = orders.pipeline.routes;
  for (TimedRoute& route : routes) {
    for (TimedStage& stage : route.stages)
      stage = {.unit = stage.unit, .chunk = stage.chunk, .kept = 0, .deferred = 0};
  }
  const auto raise = [](double& value, double to) { value = std::max(value, to); };
  for (Rank rank = 0; rank < RankCount(plan); ++rank) {
    const StepProgram& program = simulator.programs()[rank];
    const std::vector<VisitSeconds> seconds = SecondsOf(simulator, rank);
    const Keeping keeping = KeepingOf(problem, plan, program);
    for (size_t v = 0; v < program.visits.size(); ++v) {
      const Visit& visit = program.visits[v];
      std::vector<TimedStage>& stages = routes[visit.route].stages;
      TimedStage& stage = stages[visit.stage];
      const double each = 1.0 / visit.micro_batches;
      raise(stage.forward_seconds, seconds[v].forward * each);
      raise(stage.input_gradient_seconds, seconds[v].input_gradient * each);
      raise(stage.weight_gradient_seconds, seconds[v].weight_gradient * each);
      raise(stage.message_seconds, seconds[v].send_activation * each);
      if (!visit.first()) raise(stages[visit.stage - 1].message_seconds, seconds[v].send_gradient * each);
      raise(stage.kept, keeping.visits[v].kept);
      raise(stage.deferred, keeping.visits[v].deferred);
    }
    const UnitId unit = PlaceOf(plan, rank).unit;
    if (rank == FirstRankOf(plan, unit)) orders.memory_limit.push_back(keeping.left_bytes);
    orders.memory_limit[unit] = std::min(orders.memory_limit[unit], keeping.left_bytes);
  }
  for (TimedRoute& route : routes) {
    for (TimedStage& stage : route.stages) {
      if (stage.weight_gradient_seconds <= 0) stage.deferred = 0;
    }
  }
  if (!AnySplitTakesTime(problem)) return orders;
  ASSIGN_OR_RETURN(const StageSeconds whole, WholeBackwardSeconds(simulator, plan));
  for (size_t r = 0; r < routes.size(); ++r) {
    for (size_t s = 0; s < routes[r].stages.size(); ++s) {
      TimedStage& stage = routes[r].stages[s];
      stage.split_seconds =
          std::clamp(stage.input_gradient_seconds + stage.weight_gradient_seconds - whole[r][s], 0.0,
                     stage.weight_gradient_seconds);
    }
  }
  return orders;
}

}  // namespace medley
