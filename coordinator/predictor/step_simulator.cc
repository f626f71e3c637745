#include "coordinator/predictor/step_simulator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/predictor/task_keys.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/program/going_ahead.h"

namespace medley {
namespace {

// Of a plan with post-validation: behind the first step of which what follows has been made ahead, and one more in which all have
// come to rest.
constexpr int kStepsInARow = 3;

}  // namespace

StepSimulator::StepSimulator(const PlanningProblem& problem)
    : StepSimulator(problem, nullptr, std::make_unique<Reductions>(problem)) {}

StepSimulator::StepSimulator(const PlanningProblem& problem, Reductions& reductions)
    : StepSimulator(problem, &reductions, nullptr) {}

StepSimulator::StepSimulator(const PlanningProblem& problem, Reductions* reductions,
                             std::unique_ptr<Reductions> own)
    : problem_(problem),
      own_reductions_(std::move(own)),
      device_by_name_(DevicesByName(problem)),
      ways_(problem.ways ? *problem.ways : SharedWays(problem)),
      costing_(problem),
      tasks_(problem, reductions ? *reductions : *own_reductions_, ways_, graph_),
      simulation_(problem, ways_, graph_) {}

absl::StatusOr<double> StepSimulator::Run(const Plan& plan, const StandIns* stand_ins) {
  const int steps = plan.post_validation ? kStepsInARow : 1;
  ASSIGN_OR_RETURN(const TaskKeys keys, TaskKeys::Of(problem_.shape.model, plan, steps));
  RETURN_IF_ERROR(CompileAndCost(plan, stand_ins));
  tasks_.Make({&plan, &simulated(), &costs_, stand_ins}, keys);
  if (!simulation_.Run()) return NeverEnds();
  origin_seconds_ = 0;
  double end_seconds = 0;
  for (const Task& task : graph_.tasks) end_seconds = std::max(end_seconds, task.end_seconds);
  if (steps == 1) return end_seconds;
  double first_seconds = end_seconds;
  for (Rank rank = 0; rank < static_cast<int>(programs_.size()); ++rank) {
    for (int i = 0; i < static_cast<int>(programs_[rank].instructions.size()); ++i)
      first_seconds = std::min(first_seconds, TimeOf(rank, i).start_seconds);
  }
  origin_seconds_ = first_seconds;
  return SecondsFromNormToNorm();
}

absl::Status StepSimulator::CompileAndCost(const Plan& plan, const StandIns* stand_ins) {
  programs_.clear();
  rows_.clear();
  costs_.clear();
  ASSIGN_OR_RETURN(const std::vector<int> devices, DevicesOfRanks(device_by_name_, plan));
  Rank rank = 0;
  for (int u = 0; u < static_cast<int>(plan.units.size()); ++u) {
    for (int member = 0; member < static_cast<int>(plan.units[u].devices.size()); ++member, ++rank) {
      RankCost cost{.device = devices[rank]};
      if (IsSimulated(stand_ins, rank)) {
        programs_.push_back(CompileStep(plan, rank, problem_.shape, Purpose::kTrain));
        if (plan.post_validation) rows_.push_back(StepsInARow(plan, rank, problem_.shape, kStepsInARow));
        simulated_instructions_ += static_cast<int64_t>(simulated()[rank].instructions.size());
        ASSIGN_OR_RETURN(cost, costing_.Of(plan, programs_.back(), devices[rank]));
      } else {
        programs_.push_back({.rank = rank, .unit = u});
        if (plan.post_validation) rows_.push_back(programs_.back());
      }
      cost.member = member;
      costs_.push_back(std::move(cost));
    }
  }
  return absl::OkStatus();
}

double StepSimulator::SecondsFromNormToNorm() const {
  const auto normed = [&](int step) { return graph_.tasks[tasks_.ScalarsOf(step)].end_seconds; };
  return normed(kStepsInARow - 1) - normed(kStepsInARow - 2);
}

absl::Status StepSimulator::NeverEnds() const {
  for (Rank rank = 0; rank < static_cast<int>(programs_.size()); ++rank) {
    const std::vector<Instruction>& instructions = simulated()[rank].instructions;
    for (int i = 0; i < static_cast<int>(instructions.size()); ++i) {
      if (graph_.tasks[tasks_.Of(rank, i).last].end_seconds >= 0) continue;
      return absl::InternalError(absl::StrCat("step programs wait for each other: rank ", rank.value(),
                                              ", instruction ", i, " (", NameOf(instructions[i].kind),
                                              ") never starts"));
    }
  }
  return absl::InternalError("step programs wait for each other");
}

const StepTasks::OfInstruction& StepSimulator::TasksOf(Rank rank, int instruction) const {
  const size_t before = simulated()[rank].instructions.size() - programs_[rank].instructions.size();
  return tasks_.Of(rank, static_cast<int>(before) + instruction);
}

InstructionTime StepSimulator::TimeOf(Rank rank, int instruction) const {
  const StepTasks::OfInstruction& tasks = TasksOf(rank, instruction);
  return {graph_.tasks[tasks.first].start_seconds - origin_seconds_,
          graph_.tasks[tasks.last].end_seconds - origin_seconds_};
}

double StepSimulator::ComputingSeconds(Rank rank, int instruction) const {
  const int task = TasksOf(rank, instruction).computation;
  return task < 0 ? 0 : graph_.tasks[task].end_seconds - graph_.tasks[task].start_seconds;
}

LastBackward StepSimulator::LastBackwardOf(Rank rank) const { return LastBackwardOf(rank, -1); }

LastBackward StepSimulator::LastBackwardOf(Rank rank, int chunk) const {
  const std::vector<Instruction>& instructions = programs_[rank].instructions;
  for (int i = static_cast<int>(instructions.size()) - 1; i >= 0; --i) {
    if (!IsGradient(instructions[i].kind)) continue;
    if (chunk >= 0 && programs_[rank].visits[instructions[i].visit].chunk != chunk) continue;
    return {TimeOf(rank, i).end_seconds, instructions[i].kind == InstructionKind::kWeightGradient};
  }
  return {};  // they stand in their order, and there is one
}

}  // namespace medley
