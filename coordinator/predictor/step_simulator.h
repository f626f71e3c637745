#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "coordinator/predictor/cost_model.h"
#include "coordinator/predictor/fluid_work.h"
#include "coordinator/predictor/pass_costs.h"
#include "coordinator/predictor/reductions.h"
#include "coordinator/predictor/shared_ways.h"
#include "runtime/ir/plan/plan.h"
#include "runtime/ir/program/group_exchanges.h"
#include "runtime/ir/program/program.h"

namespace medley {

struct InstructionTime {
  double start_seconds = 0;  // from the start of the step
  double end_seconds = 0;
};

// The last pass of a rank in a step that makes gradients.
struct LastBackward {
  double end_seconds = 0;
  bool of_weights_alone = false;  // the gradient of the input was made before
};

// How some ranks of a plan are simulated for all (StandInsOf): sums are over all, everything else is of these, whose devices and
// messages are, in the problem that is simulated, what they are beside all others.
struct StandIns {
  std::vector<Rank> of;  // of each rank; itself, if it is simulated
  // By the numbers of SharedWays: whether what sums take of it is looked at, or another one like it is.
  std::vector<char> counts_way;
};

// Simulates step programs in virtual time, one plan after another. Instructions become tasks that wait for
// other tasks; a message or an all-reduce is one task that all its ends wait for and work on together. So is
// a gather of the ranks of a unit. A pass within which they exchange (GroupExchanges) is three: all wait for
// the last to be ready, for their first exchange would; each computes its own part; and once all have, the
// exchanges take their time; of a micro-batch in parts, what is left of it beside computing (PartsTimeline).
//
// Of a plan with post-validation several steps in a row are simulated, the last of which is what a step is from then on:
// its length is the time from norm to norm, and its times begin with its first instruction.
//
// Keeps its buffers from run to run. Keeps references to `problem` and `reductions` (of this problem;
// without, it has its own), which must outlive it. Not thread-safe.
class StepSimulator {
 public:
  explicit StepSimulator(const PlanningProblem& problem);
  StepSimulator(const PlanningProblem& problem, Reductions& reductions);

  // Seconds of one step of `plan`. Errors as PredictStep's. `stand_ins`: of that plan.
  absl::StatusOr<double> Run(const Plan& plan, const StandIns* stand_ins = nullptr);

  // The step programs of the last successful run, and the times of their instructions; of a rank that is not simulated, none.
  const std::vector<StepProgram>& programs() const { return programs_; }
  InstructionTime TimeOf(Rank rank, int instruction) const;
  // Of that time, what its device computes: the rest goes to what the ranks of a unit exchange.
  double ComputingSeconds(Rank rank, int instruction) const;
  // The last pass of `rank` that makes gradients; of one of its chunks.
  LastBackward LastBackwardOf(Rank rank) const;
  LastBackward LastBackwardOf(Rank rank, int chunk) const;

  // The instructions of all runs together: what they cost.
  int64_t simulated_instructions() const { return simulated_instructions_; }

 private:
  // kShared: a thread on the cores of each of some devices that compute on these, for what they copy or sum, and parts of
  // shared ways, as a link takes them too.
  enum class Resource : uint8_t { kNone, kProcessor, kShared, kLink };
  struct Task {
    Resource resource = Resource::kNone;
    double latency_seconds = 0;  // before `work_seconds`, using nothing
    double work_seconds = 0;     // when the resource is not shared
    int from = -1, to = -1;      // devices of a message; `from` is the device of a computation or a copy
    int waits_for = 0;           // tasks not done yet
    int first_edge = -1;         // into edges_: tasks that wait for this one
    double start_seconds = 0, end_seconds = -1;
    bool updates = false;                  // of a computation: memory bounds it, as norms and updates
    int first_thread = 0, end_thread = 0;  // into thread_devices_
    int first_way = 0, end_way = 0;        // into way_parts_
  };
  struct Edge {
    int task;
    int next;
  };
  // Of an instruction: what begins it, what its device computes (-1: nothing), what ends it.
  struct InstructionTasks {
    int first = -1, computation = -1, last = -1;
  };
  // What the ranks of a unit do together, by its order in their programs.
  struct Meeting {
    int begin = -1, end = -1;  // tasks; a gather has one
  };
  struct Running {
    int task;
    Resource resource;  // kNone while in its latency
    FluidWork work;
  };
  struct RankCost {
    int device = -1;
    int member = 0;                               // its place in its unit
    absl::InlinedVector<ChunkCost, 1> visits;     // parallel to the program's
    double norm_seconds = 0, update_seconds = 0;  // of what lives on the device
    double layer_norm_seconds = 0, layer_update_seconds = 0,
           layer_zero_seconds = 0;  // of a layer that does not
    int meetings = 0;               // with the other ranks of its unit, so far
    std::vector<int> gathers;       // of each slice's parameters, so far
  };
  struct AnsweredParameters {
    int64_t counted = 0, updated = 0;
  };

  absl::Status NumberKeys(const Plan& plan);
  absl::Status CompileAndCost(const Plan& plan);
  // What is simulated of a rank: its step, or several in a row.
  const StepProgram& Simulated(Rank rank) const { return rows_.empty() ? programs_[rank] : rows_[rank]; }
  // Of the simulated program, that of an instruction of its last step.
  int IndexOf(Rank rank, int instruction) const {
    return first_instruction_[rank] + instruction +
           static_cast<int>(Simulated(rank).instructions.size() - programs_[rank].instructions.size());
  }
  absl::StatusOr<RankCost> CostOf(const Plan& plan, const StepProgram& program, int device) const;
  // A collective of a slice.
  int SliceTask(Rank rank, const Instruction& instruction);
  // Has a copy or sum of these devices take a thread of each that computes on cores.
  void TakeThreads(Task& task, absl::Span<const int> devices);
  // Has a sum over these devices, whose length is known, take its parts of the ways that they share.
  void TakeWays(Task& task, absl::Span<const int> devices, double bytes);
  bool IsSimulated(Rank rank) const { return stand_ins_ == nullptr || stand_ins_->of[rank] == rank; }
  int64_t ParametersHeld(const Plan& plan, const StepProgram& program) const;
  void BuildTasks(const Plan& plan);
  // The tasks of an instruction, of which those of messages, sums and meetings are shared with the other ends.
  InstructionTasks TasksOf(const Plan& plan, Rank rank, const Instruction& instruction);
  InstructionTasks PassTasks(const Plan& plan, Rank rank, const Instruction& instruction);
  // What a rank computes of a pass.
  double PassSeconds(Rank rank, const Instruction& instruction) const;
  // In the passes of one of its visits.
  UnitCost CostOfUnit(const Plan& plan, UnitId unit, int visit);
  GroupPass PassOf(const Plan& plan, Rank rank, const Instruction& instruction) const;
  int GatherTask(Rank rank, const Instruction& instruction);
  int MessageTask(Rank sender, Rank receiver, const Instruction& instruction, int direction);
  int Computation(Rank rank, double seconds);
  int CopyTask(int device, const Instruction& instruction);
  // Of `held` parameters of a rank, those for whose norm it answers and those that it updates; where slices of layers on
  // the host alone are told apart, `held` are those.
  static AnsweredParameters AnsweredBy(const StepProgram& program, int64_t held, bool on_host_alone);
  // Sets the cost of a layer that has windows, the mean of all; what the rank answers for of those on the host.
  AnsweredParameters CostLayersOnHost(const Plan& plan, const StepProgram& program, const RankCosts& costs,
                                      RankCost& result) const;
  int JointTask(int64_t key);
  Meeting& NextMeeting(Rank rank);
  // Reductions' number of the devices of a rank's unit.
  int GroupOfUnit(Rank rank);
  void AddEdge(int from, int to);

  absl::Status Simulate();
  void Start(int task, double now);
  void StartWork(int task, double now);
  int NextToEnd(double now);
  void Occupy(const Running& running, int change);
  double ShareOf(const Running& running) const;
  double SlowdownOf(const Task& task) const;
  // How many times longer what runs on the cores of `device` takes than alone: the threads on them get equal parts.
  double SharingOfCores(int device) const;
  double ShareOfShared(const Task& task) const;
  absl::Span<const WayPart> WayPartsOf(const Task& task) const {
    return absl::MakeSpan(way_parts_).subspan(task.first_way, task.end_way - task.first_way);
  }

  StepSimulator(const PlanningProblem& problem, Reductions* reductions, std::unique_ptr<Reductions> own);

  const PlanningProblem& problem_;
  const std::unique_ptr<Reductions> own_reductions_;  // null: they are another's
  Reductions& reductions_;
  const std::unordered_map<std::string, int> device_by_name_;
  // The processor and the host of each device, numbered from 0; -1: it shares nothing with its host.
  std::vector<int> processor_, host_;
  const SharedWays ways_;
  std::vector<int64_t> parameters_before_;  // of blocks, without the tied embedding

  // Behind the first step of which what follows has been made ahead, and one more in which all have come to rest.
  static constexpr int kStepsInARow = 3;
  // Of tasks that several ranks have part in; more would take gigabytes.
  static constexpr int64_t kMostKeys = int64_t{1} << 29;
  std::vector<StepProgram> programs_;
  std::vector<StepProgram> rows_;  // with post-validation; the last step of each is that of programs_
  double origin_seconds_ = 0;      // when the step begins whose times are told
  int step_ = 0;                   // of the instruction at hand, among those simulated
  std::vector<RankCost> costs_;
  const StandIns* stand_ins_ = nullptr;  // of the plan at hand; null: all are simulated
  SumsAtOnce sums_at_once_;
  int64_t longest_route_ = 1;           // stages
  int64_t largest_unit_ = 1;            // ranks
  std::vector<int> first_instruction_;  // of each rank, in tasks_of_instruction_
  std::vector<InstructionTasks> tasks_of_instruction_;
  std::vector<int> joint_task_;  // by key; -1: none yet
  int64_t first_slice_key_ = 0, first_scalars_key_ = 0, key_count_ = 0;
  // Of slices that are parts (-1), and of parameters, by how often they have been gathered before.
  std::map<std::tuple<int, SegmentId, std::vector<Rank>>, int> part_task_;
  std::vector<std::vector<Meeting>> meetings_;  // of each unit
  std::vector<Task> tasks_;
  std::vector<Edge> edges_;
  std::vector<Running> running_;
  std::vector<int> thread_devices_;
  std::vector<WayPart> way_parts_;
  std::vector<int> computing_,
      threads_;  // running tasks of a processor: computations, and threads beside them
  std::vector<int> sending_, receiving_;  // likewise, of a device's ends
  std::vector<int> computing_on_host_;    // likewise, of the devices with a host_
  WaysWanted ways_wanted_;                // by running tasks
  int64_t simulated_instructions_ = 0;
};

}  // namespace medley
