#include "coordinator/predictor/step_tasks.h"

#include <algorithm>
#include <array>
#include <utility>

#include "coordinator/predictor/communication_time.h"

namespace medley {

StepTasks::StepTasks(const PlanningProblem& problem, Reductions& reductions, const SharedWays& ways,
                     TaskGraph& graph)
    : problem_(problem), reductions_(reductions), ways_(ways), graph_(graph) {}

void StepTasks::Make(const StepOfRanks& step, const TaskKeys& keys) {
  step_ = step;
  keys_ = keys;
  devices_.clear();
  for (const RankCost& cost : *step.costs) devices_.push_back(cost.device);
  sums_at_once_ = SumsAtOnce(problem_, *step.plan, devices_);
  joint_task_.assign(keys.count(), -1);
  part_task_.clear();
  meetings_.assign(step.plan->units.size(), {});
  progress_.assign(step.programs->size(), {});
  graph_.Clear();
  first_instruction_.clear();
  tasks_of_instruction_.clear();
  for (Rank rank = 0; rank < static_cast<int>(step.programs->size()); ++rank) {
    first_instruction_.push_back(static_cast<int>(tasks_of_instruction_.size()));
    progress_[rank].gathers.resize(ProgramOf(rank).slices.size());
    steps_before_ = 0;
    for (const Instruction& instruction : ProgramOf(rank).instructions) {
      tasks_of_instruction_.push_back(TasksOf(rank, instruction));
      steps_before_ += instruction.kind == InstructionKind::kReduceScalars;
    }
    AddEdges(rank);
  }
}

void StepTasks::AddEdges(Rank rank) {
  std::array<int, kStreams> last_of_stream;
  last_of_stream.fill(-1);
  const std::vector<Instruction>& instructions = ProgramOf(rank).instructions;
  for (int i = 0; i < static_cast<int>(instructions.size()); ++i) {
    const Instruction& instruction = instructions[i];
    const OfInstruction& tasks = Of(rank, i);
    int& last = last_of_stream[static_cast<int>(instruction.stream)];
    if (last >= 0) graph_.AddEdge(last, tasks.first);
    last = tasks.last;
    for (const int other : instruction.waits_for) {
      if (other >= 0) graph_.AddEdge(Of(rank, other).last, tasks.first);
    }
  }
}

StepTasks::OfInstruction StepTasks::TasksOf(Rank rank, const Instruction& instruction) {
  const RankCost& cost = CostOf(rank);
  const auto only = [](int task) { return OfInstruction{task, -1, task}; };
  const auto update = [&](double seconds) {
    const int task = Computation(rank, seconds);
    graph_.tasks[task].updates = true;
    return OfInstruction{task, task, task};
  };
  const bool of_layer = instruction.blocks.size() > 0;
  switch (instruction.kind) {
    case InstructionKind::kForward:
    case InstructionKind::kBackward:
    case InstructionKind::kInputGradient:
    case InstructionKind::kWeightGradient:
    case InstructionKind::kRecompute:
    case InstructionKind::kJoinGradients:
      return PassTasks(rank, instruction);
    case InstructionKind::kGatherActivation:
    case InstructionKind::kGatherGradient:
      return only(GatherTask(rank, instruction));
    case InstructionKind::kNormGradients:
      return update(of_layer ? cost.layer_norm_seconds : cost.norm_seconds);
    case InstructionKind::kUpdateParameters:
      return update(of_layer ? cost.layer_update_seconds : cost.update_seconds);
    case InstructionKind::kAdvanceParameters:
      return update(cost.AdvanceSeconds());
    case InstructionKind::kZeroGradients:
      return update(cost.layer_zero_seconds);
    case InstructionKind::kFetch:
    case InstructionKind::kStore:
      return only(CopyTask(cost.device, instruction));
    case InstructionKind::kSendActivation:
      return only(MessageTask(rank, instruction.peer, instruction, /*forward=*/true));
    case InstructionKind::kReceiveActivation:
      return only(MessageTask(instruction.peer, rank, instruction, /*forward=*/true));
    case InstructionKind::kSendGradient:
      return only(MessageTask(rank, instruction.peer, instruction, /*forward=*/false));
    case InstructionKind::kReceiveGradient:
      return only(MessageTask(instruction.peer, rank, instruction, /*forward=*/false));
    case InstructionKind::kReduceGradients:
    case InstructionKind::kScatterGradients:
    case InstructionKind::kGatherParameters:
      return only(SliceTask(rank, instruction));
    case InstructionKind::kReduceScalars:
      return only(ScalarsTask());
  }
  return {};
}

int StepTasks::Computation(Rank rank, double seconds) {
  return graph_.Add(
      {.resource = TaskResource::kProcessor, .work_seconds = seconds, .from = CostOf(rank).device});
}

// Beside what the device computes, and beside copies the other way; on the cores that compute, where these copy.
int StepTasks::CopyTask(int device, const Instruction& instruction) {
  const DeviceCost& cost = problem_.devices[device];
  const double bytes_per_second =
      instruction.kind == InstructionKind::kFetch ? cost.fetch_bytes_per_second : cost.store_bytes_per_second;
  const int task = graph_.Add(
      {.work_seconds = static_cast<double>(instruction.bytes.value) / bytes_per_second, .from = device});
  TakeThreads(graph_.tasks[task], {device});
  return task;
}

StepTasks::OfInstruction StepTasks::PassTasks(Rank rank, const Instruction& instruction) {
  const ChunkCost& visit = CostOf(rank).visits[instruction.visit];
  const int computation = Computation(rank, visit.Seconds(instruction.kind, instruction.blocks));
  const GroupPass pass = PassOf(rank, instruction);
  std::vector<GroupExchange> exchanges;
  if (pass.degree > 1) exchanges = GroupExchanges(problem_.shape.model, pass);
  if (exchanges.empty()) return {computation, computation, computation};
  Meeting& meeting = NextMeeting(rank);
  if (meeting.begin < 0) {
    const UnitCost unit = CostOfUnit(ProgramOf(rank).unit, instruction.visit);
    const double exchange_seconds = ExchangeSeconds(problem_, reductions_, unit, pass, exchanges);
    meeting.begin = graph_.Add();
    meeting.end = graph_.Add({.work_seconds = exchange_seconds});
  }
  graph_.AddEdge(meeting.begin, computation);
  graph_.AddEdge(computation, meeting.end);
  return {meeting.begin, computation, meeting.end};
}

GroupPass StepTasks::PassOf(Rank rank, const Instruction& instruction) const {
  const StepProgram& program = ProgramOf(rank);
  GroupPass pass = PassOfUnit(problem_, step_.plan->units[program.unit],
                              program.visits[instruction.visit].micro_batch_sequences);
  pass.kind = instruction.kind;
  pass.blocks = instruction.blocks;
  return pass;
}

UnitCost StepTasks::CostOfUnit(UnitId unit, int visit) {
  const Rank first = FirstRankOf(*step_.plan, unit);
  UnitCost cost{.group = GroupOfUnit(first)};
  for (size_t member = 0; member < step_.plan->units[unit].devices.size(); ++member) {
    const RankCost& rank = CostOf(first + static_cast<int>(member));
    cost.ranks.push_back(&rank.visits[visit]);
    cost.exchanges_on_cores |= ComputesOnCores(problem_.devices[rank.device]);
  }
  return cost;
}

int StepTasks::GatherTask(Rank rank, const Instruction& instruction) {
  Meeting& meeting = NextMeeting(rank);
  if (meeting.begin < 0) {
    const double seconds = reductions_.GatherSeconds(GroupOfUnit(rank), instruction.bytes);
    meeting.begin = meeting.end = graph_.Add({.work_seconds = seconds});
  }
  return meeting.begin;
}

// Its ranks run the same instructions of the compute stream in the same order.
StepTasks::Meeting& StepTasks::NextMeeting(Rank rank) {
  std::vector<Meeting>& meetings = meetings_[ProgramOf(rank).unit];
  const size_t next = progress_[rank].meetings++;
  if (next == meetings.size()) meetings.emplace_back();
  return meetings[next];
}

int StepTasks::GroupOfUnit(Rank rank) {
  const auto first = devices_.begin() + rank - CostOf(rank).member;
  return reductions_.GroupOf({first, first + step_.plan->units[ProgramOf(rank).unit].devices.size()});
}

int StepTasks::MessageTask(Rank sender, Rank receiver, const Instruction& instruction, bool forward) {
  const RankCost &from = CostOf(sender), &to = CostOf(receiver);
  const int task = JointTask(keys_.OfMessage(instruction, forward, from.member, to.member));
  Task& message = graph_.tasks[task];
  if (message.resource == TaskResource::kLink) return task;  // its other end came here before
  message.from = from.device;
  message.to = to.device;
  const LinkModel& transfer = problem_.links.Between(message.from, message.to).transfer;
  message.resource = TaskResource::kLink;
  message.latency_seconds = transfer.LatencySeconds();
  message.work_seconds =
      transfer.Seconds(static_cast<double>(instruction.bytes.value)) - message.latency_seconds;
  message.first_way = static_cast<int>(graph_.way_parts.size());
  ways_.AddMessage(message.from, message.to, forward, transfer.BytesPerSecond(), graph_.way_parts);
  message.end_way = static_cast<int>(graph_.way_parts.size());
  return task;
}

int StepTasks::SliceTask(Rank rank, const Instruction& instruction) {
  const InstructionKind kind = instruction.kind;
  const GradientSlice& slice = ProgramOf(rank).slices[instruction.slice];
  const bool gathers = kind == InstructionKind::kGatherParameters;
  // Parameters of a layer that lives with its holders are gathered as often by each of them.
  const int time = gathers ? progress_[rank].gathers[instruction.slice]++ : -1 - steps_before_;
  int task = -1;
  if (slice.runs.empty() && !gathers) {
    // Of the holders' parts each is summed by itself.
    task = JointTask(keys_.OfSlice(steps_before_, slice.first_segment, CostOf(rank).member));
  } else {
    const auto [part, is_new] = part_task_.try_emplace({time, slice.first_segment, slice.turn, slice.holders},
                                                       static_cast<int>(graph_.tasks.size()));
    if (is_new) graph_.Add();
    task = part->second;
  }
  if (graph_.tasks[task].work_seconds == 0) CostSlice(slice, kind, graph_.tasks[task]);
  return task;
}

void StepTasks::CostSlice(const GradientSlice& slice, InstructionKind kind, Task& task) {
  std::vector<int> devices, simulated;
  for (const Rank holder : slice.holders) {
    devices.push_back(devices_[holder]);
    if (IsSimulated(step_.stand_ins, holder)) simulated.push_back(devices.back());
  }
  const SharedSlice shared{.devices = devices,
                           .shares = slice.shares,
                           .elements = slice.elements,
                           .at_once = sums_at_once_.Over(slice.holders),
                           .on_hosts = sums_at_once_.OnHosts(slice)};
  double bytes_per_element = problem_.wire_bytes_per_element;
  if (kind == InstructionKind::kReduceGradients) {
    const int group = reductions_.GroupOf(devices, shared.at_once, shared.on_hosts);
    task.work_seconds = reductions_.Seconds(group, slice.elements);
    if (problem_.charges_least_scatters) bytes_per_element /= 2;
  } else {
    // Either half of a ring sends half of what all of it does.
    const bool gathers = kind == InstructionKind::kGatherParameters;
    task.work_seconds = reductions_.SharedSeconds(shared, gathers ? SumPart::kGathered : SumPart::kScattered);
    bytes_per_element = (gathers ? kGatheredBytesPerElement : bytes_per_element) / 2;
  }
  TakeThreads(task, simulated);
  TakeWays(task, devices, bytes_per_element * static_cast<double>(slice.elements));
}

int StepTasks::ScalarsTask() {
  const int64_t key = keys_.OfScalars(steps_before_);
  const bool is_new = joint_task_[key] < 0;
  const int task = JointTask(key);
  if (is_new) graph_.tasks[task].work_seconds = ReduceScalarsSeconds(problem_, devices_);
  return task;
}

int StepTasks::JointTask(int64_t key) {
  if (joint_task_[key] < 0) joint_task_[key] = graph_.Add();
  return joint_task_[key];
}

void StepTasks::TakeThreads(Task& task, absl::Span<const int> devices) {
  std::vector<int>& thread_devices = graph_.thread_devices;
  task.first_thread = static_cast<int>(thread_devices.size());
  for (const int device : devices) {
    if (ComputesOnCores(problem_.devices[device])) thread_devices.push_back(device);
  }
  task.end_thread = static_cast<int>(thread_devices.size());
  if (task.end_thread > task.first_thread) task.resource = TaskResource::kShared;
}

void StepTasks::TakeWays(Task& task, absl::Span<const int> devices, double bytes) {
  std::vector<WayPart>& way_parts = graph_.way_parts;
  task.first_way = static_cast<int>(way_parts.size());
  ways_.AddSum(devices, bytes, task.work_seconds, way_parts);
  if (step_.stand_ins != nullptr) {
    const auto is_told = [&](const WayPart& of) { return step_.stand_ins->counts_way[of.way] == 0; };
    way_parts.erase(std::remove_if(way_parts.begin() + task.first_way, way_parts.end(), is_told),
                    way_parts.end());
  }
  task.end_way = static_cast<int>(way_parts.size());
  if (task.end_way > task.first_way) task.resource = TaskResource::kShared;
}

}  // namespace medley
