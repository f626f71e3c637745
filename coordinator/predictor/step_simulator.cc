#include "coordinator/predictor/step_simulator.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "coordinator/predictor/communication_time.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/model/parameters.h"
#include "runtime/ir/program/going_ahead.h"

namespace medley {
namespace {

// Of what is read and written for a parameter, in elements: it is copied, m and v are copied, and all three are updated;
// an update updates them and zeroes the gradient.
constexpr double kAdvanceOverUpdate = (2.0 + 4 + 7) / (7 + 1);

}  // namespace

StepSimulator::StepSimulator(const PlanningProblem& problem)
    : StepSimulator(problem, nullptr, std::make_unique<Reductions>(problem)) {}

StepSimulator::StepSimulator(const PlanningProblem& problem, Reductions& reductions)
    : StepSimulator(problem, &reductions, nullptr) {}

StepSimulator::StepSimulator(const PlanningProblem& problem, Reductions* reductions,
                             std::unique_ptr<Reductions> own)
    : problem_(problem),
      own_reductions_(std::move(own)),
      reductions_(reductions ? *reductions : *own_reductions_),
      device_by_name_(DevicesByName(problem)),
      ways_(problem.ways ? *problem.ways : SharedWays(problem)) {
  std::map<int, int> processors, hosts;
  for (int d = 0; d < static_cast<int>(problem.devices.size()); ++d) {
    const int number = static_cast<int>(processors.size());
    processor_.push_back(processors.emplace(problem.devices[d].processor, number).first->second);
    const DeviceCost& device = problem.devices[d];
    if (device.shared_with <= 0 || device.host < 0) {
      host_.push_back(-1);
      continue;
    }
    const int host = static_cast<int>(hosts.size());
    host_.push_back(hosts.emplace(device.host, host).first->second);
  }
  parameters_before_.push_back(0);
  for (BlockId block = 0; block < problem.shape.model.blocks(); ++block) {
    parameters_before_.push_back(parameters_before_.back() +
                                 SegmentElements(problem.shape.model, SegmentOfBlock(block)));
  }
}

absl::StatusOr<double> StepSimulator::Run(const Plan& plan, const StandIns* stand_ins) {
  stand_ins_ = stand_ins;
  RETURN_IF_ERROR(NumberKeys(plan));
  RETURN_IF_ERROR(CompileAndCost(plan));
  BuildTasks(plan);
  RETURN_IF_ERROR(Simulate());
  origin_seconds_ = 0;
  if (!rows_.empty()) {
    double first_seconds = tasks_.back().end_seconds;
    for (Rank rank = 0; rank < static_cast<int>(programs_.size()); ++rank) {
      for (int i = 0; i < static_cast<int>(programs_[rank].instructions.size()); ++i)
        first_seconds = std::min(first_seconds, TimeOf(rank, i).start_seconds);
    }
    origin_seconds_ = first_seconds;
    const auto normed = [&](int step) { return tasks_[joint_task_[first_scalars_key_ + step]].end_seconds; };
    return normed(kStepsInARow - 1) - normed(kStepsInARow - 2);
  }
  double step_seconds = 0;
  for (const Task& task : tasks_) step_seconds = std::max(step_seconds, task.end_seconds);
  return step_seconds;
}

InstructionTime StepSimulator::TimeOf(Rank rank, int instruction) const {
  const InstructionTasks& tasks = tasks_of_instruction_[IndexOf(rank, instruction)];
  return {tasks_[tasks.first].start_seconds - origin_seconds_,
          tasks_[tasks.last].end_seconds - origin_seconds_};
}

double StepSimulator::ComputingSeconds(Rank rank, int instruction) const {
  const int task = tasks_of_instruction_[IndexOf(rank, instruction)].computation;
  return task < 0 ? 0 : tasks_[task].end_seconds - tasks_[task].start_seconds;
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

// One key for each message, those made ahead of a further step, too; of each step one for each segment that may begin
// a slice of some member's part, and for the scalars.
absl::Status StepSimulator::NumberKeys(const Plan& plan) {
  int64_t micro_batches = 0;
  longest_route_ = largest_unit_ = 1;
  for (const Route& route : plan.routes) {
    micro_batches += route.micro_batches;
    longest_route_ = std::max(longest_route_, static_cast<int64_t>(route.units.size()));
  }
  for (const Unit& unit : plan.units)
    largest_unit_ = std::max(largest_unit_, static_cast<int64_t>(unit.devices.size()));
  const int64_t steps = plan.post_validation ? kStepsInARow : 1, ahead = plan.post_validation ? 1 : 0;
  first_slice_key_ = 2 * (steps + ahead) * micro_batches * longest_route_ * largest_unit_ * largest_unit_;
  first_scalars_key_ = first_slice_key_ + steps * SegmentCount(problem_.shape.model) * largest_unit_;
  key_count_ = first_scalars_key_ + steps;
  if (key_count_ <= kMostKeys) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "routes: ", micro_batches, " micro-batches together, on routes of up to ", longest_route_,
      " stages and units of up to ", largest_unit_, " devices, are too many to be simulated: up to ",
      key_count_, " messages and sums; must be ", kMostKeys, " at most"));
}

absl::Status StepSimulator::CompileAndCost(const Plan& plan) {
  programs_.clear();
  rows_.clear();
  costs_.clear();
  ASSIGN_OR_RETURN(const std::vector<int> devices, DevicesOfRanks(device_by_name_, plan));
  Rank rank = 0;
  for (int u = 0; u < static_cast<int>(plan.units.size()); ++u) {
    for (int member = 0; member < static_cast<int>(plan.units[u].devices.size()); ++member, ++rank) {
      RankCost cost{.device = devices[rank]};
      if (IsSimulated(rank)) {
        programs_.push_back(CompileStep(plan, rank, problem_.shape, Purpose::kTrain));
        if (plan.post_validation) rows_.push_back(StepsInARow(plan, rank, problem_.shape, kStepsInARow));
        simulated_instructions_ += static_cast<int64_t>(Simulated(rank).instructions.size());
        ASSIGN_OR_RETURN(cost, CostOf(plan, programs_.back(), devices[rank]));
      } else {
        programs_.push_back({.rank = rank, .unit = u});
        if (plan.post_validation) rows_.push_back(programs_.back());
      }
      cost.member = member;
      costs_.push_back(std::move(cost));
    }
  }
  sums_at_once_ = SumsAtOnce(problem_, plan, devices);
  return absl::OkStatus();
}

absl::StatusOr<StepSimulator::RankCost> StepSimulator::CostOf(const Plan& plan, const StepProgram& program,
                                                              int device) const {
  const Unit& unit = plan.units[program.unit];
  const std::vector<int>& sizes = problem_.micro_batch_sizes;
  const std::optional<RankCosts> costs = CostsOf(problem_.devices[device], problem_.shape.model,
                                                 medley::ShareOf(plan, program.rank, problem_.shape.model));
  if (!costs) {
    return absl::InvalidArgumentError(
        absl::StrCat("units[", program.unit.value(), "].devices: ", problem_.devices[device].name,
                     unit.devices.size() > 1 ? " has not been measured with its share of the blocks' width"
                                             : " has not been measured with whole blocks"));
  }
  const DeviceCost& copies = problem_.devices[device];
  const bool copied = copies.fetch_bytes_per_second > 0 && copies.store_bytes_per_second > 0;
  if (!copied && (unit.lives_on_host() || unit.activations_home == ActivationsHome::kHost)) {
    const std::string field =
        unit.lives_on_host() ? absl::StrCat("window_layers: ", unit.window_layers) : "activations_home: host";
    return absl::InvalidArgumentError(
        absl::StrCat("units[", program.unit.value(), "].", field, ", but how fast ", copies.name,
                     " copies from and to host memory has not been measured; measure it again"));
  }
  RankCost result{.device = device, .gathers = std::vector<int>(program.slices.size())};
  for (const Visit& visit : program.visits) {
    if (std::find(sizes.begin(), sizes.end(), visit.micro_batch_sequences) == sizes.end()) {
      return absl::InvalidArgumentError(absl::StrCat("routes[", visit.route,
                                                     "].micro_batch_sequences: ", visit.micro_batch_sequences,
                                                     " is not among the problem's micro_batch_sizes"));
    }
    const absl::StatusOr<BlockTimes> times =
        TimesInParts(problem_, costs->times, visit.micro_batch_sequences, unit.exchange_parts);
    if (!times.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("units[", program.unit.value(), "].", times.status().message()));
    }
    const double recompute_seconds = RecomputeSeconds(
        LocalModel(problem_.shape.model, medley::ShareOf(plan, program.rank, problem_.shape.model)),
        visit.micro_batch_sequences, problem_.shape.sequence, times->layer, unit.recompute);
    result.visits.emplace_back(problem_.shape.model, unit.chunks[visit.chunk], *times, recompute_seconds);
  }
  const AnsweredParameters all = AnsweredBy(program, ParametersHeld(plan, program), /*on_host_alone=*/false);
  AnsweredParameters on_host;
  if (unit.has_windows()) on_host = CostLayersOnHost(plan, program, *costs, result);
  result.norm_seconds =
      static_cast<double>(all.counted - on_host.counted) * costs->norm_seconds_per_parameter;
  result.update_seconds =
      static_cast<double>(all.updated - on_host.updated) * costs->update_seconds_per_parameter;
  return result;
}

// The first holder answers for a shared slice, and all update it; where it has owners, these do both.
StepSimulator::AnsweredParameters StepSimulator::AnsweredBy(const StepProgram& program, int64_t held,
                                                            bool on_host_alone) {
  AnsweredParameters answered{held, held};
  for (const GradientSlice& slice : program.slices) {
    if (on_host_alone && !slice.in_host_memory) continue;
    const int64_t others = slice.elements - OwnedRange(slice, program.rank).size();
    answered.updated -= others;
    answered.counted -= !slice.shares.empty()                   ? others
                        : slice.holders.front() == program.rank ? 0
                                                                : slice.elements;
  }
  return answered;
}

StepSimulator::AnsweredParameters StepSimulator::CostLayersOnHost(const Plan& plan,
                                                                  const StepProgram& program,
                                                                  const RankCosts& costs,
                                                                  RankCost& result) const {
  const ModelConfig local =
      LocalModel(problem_.shape.model, medley::ShareOf(plan, program.rank, problem_.shape.model));
  const int64_t of_layer = SegmentElements(local, SegmentOfBlock(BlockOfLayer(0)));
  int layers = 0, norms = 0;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.blocks.size() == 0) continue;
    layers += instruction.kind == InstructionKind::kUpdateParameters;
    norms += instruction.kind == InstructionKind::kNormGradients;
  }
  const AnsweredParameters answered = AnsweredBy(program, layers * of_layer, /*on_host_alone=*/true);
  const auto of_each = [](int64_t elements, int instructions, double seconds_per_parameter) {
    return instructions > 0 ? static_cast<double>(elements) * seconds_per_parameter / instructions : 0;
  };
  result.layer_norm_seconds = of_each(answered.counted, norms, costs.norm_seconds_per_parameter);
  result.layer_update_seconds = of_each(answered.updated, layers, costs.update_seconds_per_parameter);
  // It writes what a norm reads.
  result.layer_zero_seconds = static_cast<double>(of_layer) * costs.norm_seconds_per_parameter;
  return answered;
}

int64_t StepSimulator::ParametersHeld(const Plan& plan, const StepProgram& program) const {
  const ModelConfig& config = problem_.shape.model;
  const Unit& unit = plan.units[program.unit];
  int64_t held = 0;
  if (unit.devices.size() > 1) {
    const ModelConfig local = LocalModel(config, medley::ShareOf(plan, program.rank, config));
    for (const SegmentId segment : SegmentsOf(config, unit.chunks)) held += SegmentElements(local, segment);
    return held;
  }
  for (const BlockRange& blocks : unit.chunks)
    held += parameters_before_[blocks.end] - parameters_before_[blocks.first];
  if (Holds(unit, config.embedding_block()) || Holds(unit, config.head_block()))
    held += SegmentElements(config, kTiedSegment);
  return held;
}

void StepSimulator::BuildTasks(const Plan& plan) {
  joint_task_.assign(key_count_, -1);
  part_task_.clear();
  thread_devices_.clear();
  way_parts_.clear();
  meetings_.assign(plan.units.size(), {});
  tasks_.clear();
  edges_.clear();
  first_instruction_.clear();
  tasks_of_instruction_.clear();
  for (int rank = 0; rank < static_cast<int>(programs_.size()); ++rank) {
    const int first = static_cast<int>(tasks_of_instruction_.size());
    first_instruction_.push_back(first);
    std::array<int, kStreams> last_of_stream;
    last_of_stream.fill(-1);
    const std::vector<Instruction>& instructions = Simulated(rank).instructions;
    step_ = 0;
    for (const Instruction& instruction : instructions) {
      tasks_of_instruction_.push_back(TasksOf(plan, rank, instruction));
      step_ += instruction.kind == InstructionKind::kReduceScalars;
    }
    for (int i = 0; i < static_cast<int>(instructions.size()); ++i) {
      const Instruction& instruction = instructions[i];
      const InstructionTasks& tasks = tasks_of_instruction_[first + i];
      int& last = last_of_stream[static_cast<int>(instruction.stream)];
      if (last >= 0) AddEdge(last, tasks.first);
      last = tasks.last;
      for (const int other : instruction.waits_for) {
        if (other >= 0) AddEdge(tasks_of_instruction_[first + other].last, tasks.first);
      }
    }
  }
}

int StepSimulator::JointTask(int64_t key) {
  if (joint_task_[key] < 0) {
    joint_task_[key] = static_cast<int>(tasks_.size());
    tasks_.emplace_back();
  }
  return joint_task_[key];
}

// Its ranks run the same instructions of the compute stream in the same order.
StepSimulator::Meeting& StepSimulator::NextMeeting(Rank rank) {
  std::vector<Meeting>& meetings = meetings_[programs_[rank].unit];
  const size_t next = costs_[rank].meetings++;
  if (next == meetings.size()) meetings.emplace_back();
  return meetings[next];
}

int StepSimulator::GroupOfUnit(Rank rank) {
  std::vector<int> devices;
  const UnitId unit = programs_[rank].unit;
  for (size_t r = rank - costs_[rank].member; r < programs_.size() && programs_[r].unit == unit; ++r)
    devices.push_back(costs_[r].device);
  return reductions_.GroupOf(devices);
}

int StepSimulator::Computation(Rank rank, double seconds) {
  tasks_.push_back({.resource = Resource::kProcessor, .work_seconds = seconds, .from = costs_[rank].device});
  return static_cast<int>(tasks_.size()) - 1;
}

// A message is known by its micro-batch, the boundary that it crosses, whether it goes forward or backward,
// and the ranks at its ends.
int StepSimulator::MessageTask(Rank sender, Rank receiver, const Instruction& instruction, int direction) {
  int64_t key = (instruction.micro_batch * longest_route_ + instruction.boundary) * 2 + direction;
  if (largest_unit_ > 1)
    key = (key * largest_unit_ + costs_[sender].member) * largest_unit_ + costs_[receiver].member;
  const int task = JointTask(key);
  Task& message = tasks_[task];
  if (message.resource == Resource::kLink) return task;  // its other end came here before
  message.from = costs_[sender].device;
  message.to = costs_[receiver].device;
  const LinkModel& transfer = problem_.links.Between(message.from, message.to).transfer;
  message.resource = Resource::kLink;
  message.latency_seconds = transfer.LatencySeconds();
  message.work_seconds =
      transfer.Seconds(static_cast<double>(instruction.bytes.value)) - message.latency_seconds;
  message.first_way = static_cast<int>(way_parts_.size());
  ways_.AddMessage(message.from, message.to, direction == 0, transfer.BytesPerSecond(), way_parts_);
  message.end_way = static_cast<int>(way_parts_.size());
  return task;
}

double StepSimulator::PassSeconds(Rank rank, const Instruction& instruction) const {
  return costs_[rank].visits[instruction.visit].Seconds(instruction.kind, instruction.blocks);
}

UnitCost StepSimulator::CostOfUnit(const Plan& plan, UnitId unit, int visit) {
  const Rank first = FirstRankOf(plan, unit);
  UnitCost cost{.group = GroupOfUnit(first)};
  for (size_t member = 0; member < plan.units[unit].devices.size(); ++member) {
    const RankCost& rank = costs_[first + static_cast<int>(member)];
    cost.ranks.push_back(&rank.visits[visit]);
    cost.exchanges_on_cores |= ComputesOnCores(problem_.devices[rank.device]);
  }
  return cost;
}

StepSimulator::InstructionTasks StepSimulator::PassTasks(const Plan& plan, Rank rank,
                                                         const Instruction& instruction) {
  const int computation = Computation(rank, PassSeconds(rank, instruction));
  const GroupPass pass = PassOf(plan, rank, instruction);
  std::vector<GroupExchange> exchanges;
  if (pass.degree > 1) exchanges = GroupExchanges(problem_.shape.model, pass);
  if (exchanges.empty()) return {computation, computation, computation};
  Meeting& meeting = NextMeeting(rank);
  if (meeting.begin < 0) {
    const UnitCost unit = CostOfUnit(plan, programs_[rank].unit, instruction.visit);
    const double exchange_seconds = ExchangeSeconds(problem_, reductions_, unit, pass, exchanges);
    meeting.begin = static_cast<int>(tasks_.size());
    tasks_.emplace_back();
    meeting.end = static_cast<int>(tasks_.size());
    tasks_.push_back({.work_seconds = exchange_seconds});
  }
  AddEdge(meeting.begin, computation);
  AddEdge(computation, meeting.end);
  return {meeting.begin, computation, meeting.end};
}

GroupPass StepSimulator::PassOf(const Plan& plan, Rank rank, const Instruction& instruction) const {
  const StepProgram& program = programs_[rank];
  GroupPass pass =
      PassOfUnit(problem_, plan.units[program.unit], program.visits[instruction.visit].micro_batch_sequences);
  pass.kind = instruction.kind;
  pass.blocks = instruction.blocks;
  return pass;
}

int StepSimulator::GatherTask(Rank rank, const Instruction& instruction) {
  Meeting& meeting = NextMeeting(rank);
  if (meeting.begin < 0) {
    const double seconds = reductions_.GatherSeconds(GroupOfUnit(rank), instruction.bytes);
    meeting.begin = meeting.end = static_cast<int>(tasks_.size());
    tasks_.push_back({.work_seconds = seconds});
  }
  return meeting.begin;
}

int StepSimulator::SliceTask(Rank rank, const Instruction& instruction) {
  const InstructionKind kind = instruction.kind;
  const GradientSlice& slice = programs_[rank].slices[instruction.slice];
  const bool gathers = kind == InstructionKind::kGatherParameters;
  // Parameters of a layer that lives with its holders are gathered as often by each of them.
  const int time = gathers ? costs_[rank].gathers[instruction.slice]++ : -1 - step_;
  int task = -1;
  if (slice.runs.empty() && !gathers) {
    // Of the holders' parts each is summed by itself.
    const int64_t segment = step_ * SegmentCount(problem_.shape.model) + slice.first_segment;
    task = JointTask(first_slice_key_ + segment * largest_unit_ + costs_[rank].member);
  } else {
    const auto [part, is_new] =
        part_task_.try_emplace({time, slice.first_segment, slice.holders}, static_cast<int>(tasks_.size()));
    if (is_new) tasks_.emplace_back();
    task = part->second;
  }
  if (tasks_[task].work_seconds == 0) {
    std::vector<int> devices, simulated;
    for (const Rank holder : slice.holders) {
      devices.push_back(costs_[holder].device);
      if (IsSimulated(holder)) simulated.push_back(devices.back());
    }
    // A ring's first half scatters sums, its second half gathers.
    const double part = kind == InstructionKind::kReduceGradients ? 1 : 0.5;
    int64_t elements = slice.elements;
    if (!slice.shares.empty()) {
      const double all = std::accumulate(slice.shares.begin(), slice.shares.end(), 0.0);
      elements = ElementsAsEven(elements, static_cast<int>(slice.shares.size()),
                                *std::min_element(slice.shares.begin(), slice.shares.end()) / all);
    }
    const int group =
        reductions_.GroupOf(devices, sums_at_once_.Over(slice.holders), sums_at_once_.OnHosts(slice));
    tasks_[task].work_seconds = part * reductions_.Seconds(group, elements);
    TakeThreads(tasks_[task], simulated);
    TakeWays(tasks_[task], devices,
             part * problem_.wire_bytes_per_element * static_cast<double>(slice.elements));
  }
  return task;
}

void StepSimulator::TakeThreads(Task& task, absl::Span<const int> devices) {
  task.first_thread = static_cast<int>(thread_devices_.size());
  for (const int device : devices) {
    if (ComputesOnCores(problem_.devices[device])) thread_devices_.push_back(device);
  }
  task.end_thread = static_cast<int>(thread_devices_.size());
  if (task.end_thread > task.first_thread) task.resource = Resource::kShared;
}

void StepSimulator::TakeWays(Task& task, absl::Span<const int> devices, double bytes) {
  task.first_way = static_cast<int>(way_parts_.size());
  ways_.AddSum(devices, bytes, task.work_seconds, way_parts_);
  if (stand_ins_ != nullptr) {
    const auto is_told = [&](const WayPart& of) { return stand_ins_->counts_way[of.way] == 0; };
    way_parts_.erase(std::remove_if(way_parts_.begin() + task.first_way, way_parts_.end(), is_told),
                     way_parts_.end());
  }
  task.end_way = static_cast<int>(way_parts_.size());
  if (task.end_way > task.first_way) task.resource = Resource::kShared;
}

// Beside what the device computes, and beside copies the other way; on the cores that compute, where these copy.
int StepSimulator::CopyTask(int device, const Instruction& instruction) {
  const DeviceCost& cost = problem_.devices[device];
  const double bytes_per_second =
      instruction.kind == InstructionKind::kFetch ? cost.fetch_bytes_per_second : cost.store_bytes_per_second;
  tasks_.push_back(
      {.work_seconds = static_cast<double>(instruction.bytes.value) / bytes_per_second, .from = device});
  TakeThreads(tasks_.back(), {device});
  return static_cast<int>(tasks_.size()) - 1;
}

StepSimulator::InstructionTasks StepSimulator::TasksOf(const Plan& plan, Rank rank,
                                                       const Instruction& instruction) {
  const RankCost& cost = costs_[rank];
  const auto only = [](int task) { return InstructionTasks{task, -1, task}; };
  const auto update = [&](double seconds) {
    const int task = Computation(rank, seconds);
    tasks_[task].updates = true;
    return InstructionTasks{task, task, task};
  };
  switch (instruction.kind) {
    case InstructionKind::kForward:
    case InstructionKind::kBackward:
    case InstructionKind::kInputGradient:
    case InstructionKind::kWeightGradient:
    case InstructionKind::kRecompute:
    case InstructionKind::kJoinGradients:
      return PassTasks(plan, rank, instruction);
    case InstructionKind::kGatherActivation:
    case InstructionKind::kGatherGradient:
      return only(GatherTask(rank, instruction));
    case InstructionKind::kNormGradients:
      return update(instruction.blocks.size() > 0 ? cost.layer_norm_seconds : cost.norm_seconds);
    case InstructionKind::kUpdateParameters:
      return update(instruction.blocks.size() > 0 ? cost.layer_update_seconds : cost.update_seconds);
    case InstructionKind::kAdvanceParameters:
      return update(kAdvanceOverUpdate * cost.update_seconds);
    case InstructionKind::kZeroGradients:
      return update(cost.layer_zero_seconds);
    case InstructionKind::kFetch:
    case InstructionKind::kStore:
      return only(CopyTask(cost.device, instruction));
    case InstructionKind::kSendActivation:
      return only(MessageTask(rank, instruction.peer, instruction, 0));
    case InstructionKind::kReceiveActivation:
      return only(MessageTask(instruction.peer, rank, instruction, 0));
    case InstructionKind::kSendGradient:
      return only(MessageTask(rank, instruction.peer, instruction, 1));
    case InstructionKind::kReceiveGradient:
      return only(MessageTask(instruction.peer, rank, instruction, 1));
    case InstructionKind::kReduceGradients:
    case InstructionKind::kScatterGradients:
    case InstructionKind::kGatherParameters:
      return only(SliceTask(rank, instruction));
    case InstructionKind::kReduceScalars: {
      const bool is_new = joint_task_[first_scalars_key_ + step_] < 0;
      const int task = JointTask(first_scalars_key_ + step_);
      if (is_new) {
        std::vector<int> devices;
        for (const RankCost& other : costs_) devices.push_back(other.device);
        tasks_[task].work_seconds = ReduceScalarsSeconds(problem_, devices);
      }
      return only(task);
    }
  }
  return {};
}

void StepSimulator::AddEdge(int from, int to) {
  edges_.push_back({to, tasks_[from].first_edge});
  tasks_[from].first_edge = static_cast<int>(edges_.size()) - 1;
  ++tasks_[to].waits_for;
}

}  // namespace medley
