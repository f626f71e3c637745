#pragma once
#include <map>
#include <tuple>
#include <vector>

#include "absl/types/span.h"
#include "coordinator/predictor/cost_model.h"
#include "coordinator/predictor/pass_costs.h"
#include "coordinator/predictor/rank_costing.h"
#include "coordinator/predictor/reductions.h"
#include "coordinator/predictor/shared_ways.h"
#include "coordinator/predictor/task_graph.h"
#include "coordinator/predictor/task_keys.h"
#include "runtime/ir/model/parameters.h"
#include "runtime/ir/plan/plan.h"
#include "runtime/ir/program/group_exchanges.h"
#include "runtime/ir/program/program.h"

namespace medley {

// How some ranks of a plan are simulated for all (StandInsOf): sums are over all, everything else is of these, whose devices and
// messages are, in the problem that is simulated, what they are beside all others.
struct StandIns {
  std::vector<Rank> of;  // of each rank; itself, if it is simulated
  // By the numbers of SharedWays: whether what sums take of it is looked at, or another one like it is.
  std::vector<char> counts_way;
};

// `stand_ins` null: all are.
inline bool IsSimulated(const StandIns* stand_ins, Rank rank) {
  return stand_ins == nullptr || stand_ins->of[rank] == rank;
}

// A plan's step as its ranks run it. Programs have several steps in a row where one alone is not what a step is from then on.
struct StepOfRanks {
  const Plan* plan = nullptr;
  // Of each rank; of one that is not simulated no instructions, and of its cost the device and its place alone.
  const std::vector<StepProgram>* programs = nullptr;
  const std::vector<RankCost>* costs = nullptr;
  const StandIns* stand_ins = nullptr;  // null: all are simulated
};

// Makes the tasks of step programs. Instructions become tasks that wait for other tasks: the one before in their stream, and those
// that they wait for. A message or an all-reduce is one task that all its ends wait for and work on together. So is
// a gather of the ranks of a unit. A pass within which they exchange (GroupExchanges) is three: all wait for
// the last to be ready, for their first exchange would; each computes its own part; and once all have, the
// exchanges take their time; of a micro-batch in parts, what is left of it beside computing (PartsTimeline).
//
// Keeps its buffers from step to step, and references to all that it is made of, which must outlive it.
class StepTasks {
 public:
  // Of an instruction: what begins it, what its device computes (-1: nothing), what ends it.
  struct OfInstruction {
    int first = -1, computation = -1, last = -1;
  };

  // `graph`: what they are made in.
  StepTasks(const PlanningProblem& problem, Reductions& reductions, const SharedWays& ways, TaskGraph& graph);

  // Instead of those made before. `keys`: of so many steps.
  void Make(const StepOfRanks& step, const TaskKeys& keys);

  const OfInstruction& Of(Rank rank, int instruction) const {
    return tasks_of_instruction_[first_instruction_[rank] + instruction];
  }
  // That sums the scalars of the `step`-th step.
  int ScalarsOf(int step) const { return joint_task_[keys_.OfScalars(step)]; }

 private:
  // What the ranks of a unit do together, by its order in their programs.
  struct Meeting {
    int begin = -1, end = -1;  // tasks; a gather has one
  };
  // Of a rank, how often it has done what it does with others.
  struct Progress {
    int meetings = 0;          // with the other ranks of its unit
    std::vector<int> gathers;  // of each slice's parameters
  };

  const StepProgram& ProgramOf(Rank rank) const { return (*step_.programs)[rank]; }
  const RankCost& CostOf(Rank rank) const { return (*step_.costs)[rank]; }
  // The tasks of an instruction, of which those of messages, sums and meetings are shared with the other ends.
  OfInstruction TasksOf(Rank rank, const Instruction& instruction);
  void AddEdges(Rank rank);

  int Computation(Rank rank, double seconds);
  int CopyTask(int device, const Instruction& instruction);

  // Of the ranks of a unit.
  OfInstruction PassTasks(Rank rank, const Instruction& instruction);
  GroupPass PassOf(Rank rank, const Instruction& instruction) const;
  // In the passes of one of its visits.
  UnitCost CostOfUnit(UnitId unit, int visit);
  int GatherTask(Rank rank, const Instruction& instruction);
  Meeting& NextMeeting(Rank rank);
  // Reductions' number of the devices of a rank's unit.
  int GroupOfUnit(Rank rank);

  // Of the ends of a message, of the holders of a slice, and of all.
  int MessageTask(Rank sender, Rank receiver, const Instruction& instruction, bool forward);
  int SliceTask(Rank rank, const Instruction& instruction);
  void CostSlice(const GradientSlice& slice, InstructionKind kind, Task& task);
  int ScalarsTask();
  int JointTask(int64_t key);
  // Has a copy or sum of these devices take a thread of each that computes on cores.
  void TakeThreads(Task& task, absl::Span<const int> devices);
  // Has a sum over these devices, whose length is known, take its parts of the ways that they share.
  void TakeWays(Task& task, absl::Span<const int> devices, double bytes);

  const PlanningProblem& problem_;
  Reductions& reductions_;
  const SharedWays& ways_;
  TaskGraph& graph_;

  StepOfRanks step_;
  TaskKeys keys_;
  std::vector<int> devices_;  // of each rank
  SumsAtOnce sums_at_once_;
  int steps_before_ = 0;                // of the instruction at hand, on its rank
  std::vector<int> first_instruction_;  // of each rank, in tasks_of_instruction_
  std::vector<OfInstruction> tasks_of_instruction_;
  std::vector<int> joint_task_;  // by key; -1: none yet
  // Of slices that are parts, by -1 - steps_before_, and of parameters, by how often they have been gathered before.
  std::map<std::tuple<int, SegmentId, int, std::vector<Rank>>, int> part_task_;
  std::vector<std::vector<Meeting>> meetings_;  // of each unit
  std::vector<Progress> progress_;              // of each rank
};

}  // namespace medley
