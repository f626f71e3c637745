#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "coordinator/planner/planner.h"
#include "coordinator/planner/problem_check.h"
#include "coordinator/planner/what_helps.h"
#include "coordinator/predictor/library_sums.h"
#include "coordinator/predictor/reductions.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/model/block_sizes.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/program/memory.h"
#include "runtime/ir/program/program.h"

namespace medley {
namespace {

std::string Percent(double share) { return absl::StrFormat("%.0f %%", 100 * share); }

std::string Seconds(double seconds) {
  if (seconds < 1e-3) return absl::StrFormat("%.1f us", seconds * 1e6);
  if (seconds < 1) return absl::StrFormat("%.2f ms", seconds * 1e3);
  return absl::StrFormat("%.2f s", seconds);
}

std::string DescribeProtection(MessageProtection protection) {
  switch (protection) {
    case MessageProtection::kNone:
      break;
    case MessageProtection::kChecksum:
      return "between hosts are protected by a checksum, which the links were measured with";
    case MessageProtection::kEncryption:
      return "between hosts are protected by encryption, which the links were measured with";
  }
  return "";
}

// Of more devices steps of plans that are not taken are not simulated once more, which takes minutes where no rank stands for others.
constexpr size_t kMostPortrayed = 2048;

// How one step of a plan passes.
struct Portrait {
  StepPrediction prediction;
  int busiest = 0, idlest = 0;  // ranks
  double busiest_share = 0, idlest_share = 0;
  // Longest of a rank, in reductions of gradients that all holders are ready for.
  double reduction_seconds = 0;
  int slowest_sender = -1;  // rank whose messages take longest
  double message_seconds = 0;
  // Longest of a unit, in what its ranks sum and give each other; -1: every unit is one device.
  UnitId exchanging;
  std::string exchanging_devices;
  double exchange_seconds = 0;
};

// Of the rank that waits least for the others.
double ExchangeSeconds(const Plan& plan, UnitId unit, const StepPrediction& prediction) {
  const Rank first = FirstRankOf(plan, unit);
  double least = prediction.ranks[first].exchange_seconds;
  for (size_t member = 1; member < plan.units[unit].devices.size(); ++member)
    least = std::min(least, prediction.ranks[first + static_cast<int>(member)].exchange_seconds);
  return least;
}

double MessageSeconds(const StepProgram& program, const RankPrediction& unit) {
  double activation = 0, gradient = 0;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const double seconds = unit.timeline[i].end_seconds - unit.timeline[i].start_seconds;
    if (program.instructions[i].kind == InstructionKind::kSendActivation) activation += seconds;
    if (program.instructions[i].kind == InstructionKind::kSendGradient) gradient += seconds;
  }
  return std::max(activation, gradient);
}

double ReductionSeconds(const StepProgram& program, const RankPrediction& unit) {
  double total = 0;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (!IsOfSlice(program.instructions[i].kind)) continue;
    total += unit.timeline[i].end_seconds - unit.timeline[i].start_seconds;
  }
  return total;
}

absl::StatusOr<Portrait> PortraitOf(const PlanningProblem& problem, const Plan& plan) {
  Portrait portrait;
  ASSIGN_OR_RETURN(portrait.prediction, PredictStep(problem, plan));
  const StepPrediction& prediction = portrait.prediction;
  const double step_seconds = std::max(prediction.step_seconds, 1e-300);
  for (int u = 0; u < static_cast<int>(prediction.ranks.size()); ++u) {
    if (prediction.stand_ins[u] != u) continue;
    const RankPrediction& unit = prediction.ranks[u];
    const double share = unit.busy_seconds / step_seconds;
    if (u == 0 || share > portrait.busiest_share) {
      portrait.busiest = u;
      portrait.busiest_share = share;
    }
    if (u == 0 || share < portrait.idlest_share) {
      portrait.idlest = u;
      portrait.idlest_share = share;
    }
    const StepProgram program = CompileStep(plan, u, problem.shape, Purpose::kTrain);
    portrait.reduction_seconds = std::max(portrait.reduction_seconds, ReductionSeconds(program, unit));
    const double message_seconds = MessageSeconds(program, unit);
    if (message_seconds > portrait.message_seconds) {
      portrait.message_seconds = message_seconds;
      portrait.slowest_sender = u;
    }
  }
  for (int u = 0; u < static_cast<int>(plan.units.size()); ++u) {
    if (plan.units[u].devices.size() < 2) continue;
    if (const Rank first = FirstRankOf(plan, u); prediction.stand_ins[first] != first) continue;
    const double seconds = ExchangeSeconds(plan, u, prediction);
    if (portrait.exchanging >= 0 && seconds <= portrait.exchange_seconds) continue;
    portrait.exchanging = u;
    portrait.exchange_seconds = seconds;
    portrait.exchanging_devices = absl::StrJoin(plan.units[u].devices, "+");
  }
  return portrait;
}

std::string BottleneckOf(const Portrait& portrait) {
  const StepPrediction& prediction = portrait.prediction;
  const double busy_seconds = prediction.ranks[portrait.busiest].busy_seconds;
  const std::string of_step = absl::StrCat(" of the step's ", Seconds(prediction.step_seconds));
  if (portrait.reduction_seconds > busy_seconds && portrait.reduction_seconds >= portrait.message_seconds) {
    return absl::StrCat("reductions: summing gradients takes ", Seconds(portrait.reduction_seconds), of_step,
                        "; the busiest device computes for ", Seconds(busy_seconds));
  }
  if (portrait.message_seconds > busy_seconds) {
    return absl::StrCat("link: messages that ", prediction.ranks[portrait.slowest_sender].device,
                        " sends one way take ", Seconds(portrait.message_seconds), of_step,
                        "; the busiest device computes for ", Seconds(busy_seconds));
  }
  if (portrait.exchange_seconds > busy_seconds) {
    return absl::StrCat("exchanges: what ", portrait.exchanging_devices,
                        " sum and give each other within passes takes ", Seconds(portrait.exchange_seconds),
                        of_step, "; the busiest device computes for ", Seconds(busy_seconds));
  }
  return absl::StrCat("device: ", prediction.ranks[portrait.busiest].device, " computes for ",
                      Seconds(busy_seconds), of_step, " (", Percent(portrait.busiest_share), ")");
}

std::string WhySlower(const PlanningProblem& problem, const Portrait& portrait, double chosen_seconds) {
  const StepPrediction& prediction = portrait.prediction;
  const double step_seconds = prediction.step_seconds;
  const RankPrediction& busiest = prediction.ranks[portrait.busiest];
  const std::string length = Seconds(step_seconds);
  const auto than_chosen = [&](std::string reason) {
    if (step_seconds > chosen_seconds * (1 + 1e-9)) return reason;
    return absl::StrCat("it is not slower: ", reason);
  };
  if (portrait.reduction_seconds > busiest.busy_seconds || portrait.message_seconds > busiest.busy_seconds) {
    return than_chosen(absl::StrCat(BottleneckOf(portrait)));
  }
  std::string reason =
      absl::StrCat(busiest.device, " would be busy ", Percent(portrait.busiest_share), " of ", length);
  const int left_out = static_cast<int>(problem.devices.size() - prediction.ranks.size());
  if (prediction.ranks.size() > 1) {
    const RankPrediction& idlest = prediction.ranks[portrait.idlest];
    absl::StrAppend(&reason, " while ", idlest.device, " idles ", Percent(1 - portrait.idlest_share));
  }
  if (left_out > 0)
    absl::StrAppend(&reason, left_out == 1 ? "; 1 device" : absl::StrCat("; ", left_out, " devices"),
                    " would not be used");
  return than_chosen(reason);
}

// What a rank does of a plan.
struct RankWork {
  Bytes collectives;
  int blocks = 0, micro_batches = 0;
  double forward_flops = 0;
};

RankWork WorkOfRank(const PlanningProblem& problem, const Plan& plan, Rank rank) {
  const StepProgram program = CompileStep(plan, rank, problem.shape, Purpose::kTrain);
  RankWork work{.collectives = CollectiveBytes(plan, program, problem.shape)};
  const Unit& unit = plan.units[program.unit];
  for (const BlockRange& chunk : unit.chunks) work.blocks += chunk.size();
  const double width = static_cast<double>(ShareOf(plan, rank, problem.shape.model).feed_forward.size()) /
                       problem.shape.model.feed_forward;
  int last_route = -1;
  for (const Visit& visit : program.visits) {
    // One that passes several ranges of the unit is one.
    if (std::exchange(last_route, visit.route) != visit.route) work.micro_batches += visit.micro_batches;
    const double sequences = static_cast<double>(visit.micro_batches) * visit.micro_batch_sequences;
    const BlockRange& chunk = unit.chunks[visit.chunk];
    for (BlockId block = chunk.first; block < chunk.end; ++block) {
      work.forward_flops +=
          width * sequences * WorkOf(problem.shape.model, block, 1, problem.shape.sequence).forward.flops;
    }
  }
  return work;
}

// Of each rank, that of its stand-in.
std::vector<RankWork> WorkOfRanks(const PlanningProblem& problem, const Plan& plan,
                                  const StepPrediction& prediction) {
  std::vector<RankWork> works;
  for (Rank rank = 0; rank < RankCount(plan); ++rank) {
    const Rank stand_in = prediction.stand_ins[rank];
    works.push_back(stand_in < rank ? works[stand_in] : WorkOfRank(problem, plan, stand_in));
  }
  return works;
}

std::map<std::string, Rank> RanksByDevice(const Plan& plan) {
  std::map<std::string, Rank> rank_of;
  const std::vector<std::string> names = medley::DevicesOf(plan);
  for (size_t rank = 0; rank < names.size(); ++rank) rank_of.emplace(names[rank], static_cast<int>(rank));
  return rank_of;
}

std::vector<Explanation::Device> DevicesOf(const PlanningProblem& problem, const StepPrediction& prediction,
                                           const std::map<std::string, Rank>& rank_of,
                                           const std::vector<RankWork>& works) {
  std::vector<Explanation::Device> devices;
  for (const DeviceCost& cost : problem.devices) {
    Explanation::Device& device = devices.emplace_back();
    device.name = cost.name;
    device.kind = cost.kind;
    device.price_per_hour = cost.price_per_hour;
    device.memory_limit = cost.room.memory;
    device.host_memory = cost.host_memory;
    const auto used = rank_of.find(cost.name);
    if (used == rank_of.end()) continue;
    const Rank rank = used->second;
    device.used = true;
    if (prediction.step_seconds > 0)
      device.busy_share = prediction.ranks[rank].busy_seconds / prediction.step_seconds;
    device.peak_memory = prediction.ranks[rank].peak_memory;
    device.memory = prediction.ranks[rank].memory;
    device.collectives = works[rank].collectives;
    device.blocks = works[rank].blocks;
    device.micro_batches = works[rank].micro_batches;
  }
  return devices;
}

std::vector<Explanation::Kind> KindsOf(const std::vector<Explanation::Device>& devices,
                                       const std::map<std::string, Rank>& rank_of,
                                       const std::vector<RankWork>& works) {
  double all_flops = 0;
  for (const RankWork& work : works) all_flops += work.forward_flops;
  std::vector<Explanation::Kind> kinds;
  for (const Explanation::Device& device : devices) {
    auto kind = std::find_if(kinds.begin(), kinds.end(),
                             [&](const Explanation::Kind& known) { return known.kind == device.kind; });
    if (kind == kinds.end()) kind = kinds.insert(kinds.end(), Explanation::Kind{.kind = device.kind});
    ++kind->devices;
    if (!device.used) continue;
    ++kind->used;
    kind->busy_share += device.busy_share;
    if (all_flops > 0) kind->work_share += works[rank_of.at(device.name)].forward_flops / all_flops;
    if (device.memory_limit > Bytes{0})
      kind->memory_share = std::max(kind->memory_share, static_cast<double>(device.peak_memory.value) /
                                                            static_cast<double>(device.memory_limit.value));
  }
  for (Explanation::Kind& kind : kinds) kind.busy_share /= std::max(1, kind.used);
  return kinds;
}

absl::StatusOr<std::string> DescribeReductions(const PlanningProblem& problem, const Plan& plan) {
  ASSIGN_OR_RETURN(const std::vector<ReductionChoice> reductions, ReductionsOf(problem, plan));
  if (reductions.empty()) return std::string();
  const ReductionChoice& largest = *std::max_element(
      reductions.begin(), reductions.end(), [](const ReductionChoice& a, const ReductionChoice& b) {
        return a.elements != b.elements ? a.elements < b.elements : a.holders.size() < b.holders.size();
      });
  ASSIGN_OR_RETURN(const std::vector<int> device_of_rank, DevicesOfRanks(DevicesByName(problem), plan));
  const SumsAtOnce sums_at_once(problem, plan, device_of_rank);
  const int at_once = sums_at_once.Over(largest.holders);
  std::vector<int> devices;
  std::vector<std::string> names;
  for (const Rank rank : largest.holders) {
    devices.push_back(device_of_rank[rank]);
    names.push_back(problem.devices[devices.back()].name);
  }
  const double bytes = problem.wire_bytes_per_element * static_cast<double>(largest.elements);
  std::string text = absl::StrCat(
      "the largest sum of gradients, ", FormatBytes({static_cast<int64_t>(bytes)}),
      problem.wire_bytes_per_element == 2 ? " in bf16" : "", " over ",
      names.size() <= 4 ? absl::StrJoin(names, ", ") : absl::StrCat(names.size(), " devices"), ", goes by ");
  Reductions choosing(problem);
  const std::vector<GradientSlice> slices = SlicesOf(plan, largest.holders.front(), problem.shape.model);
  const bool on_hosts = std::any_of(slices.begin(), slices.end(), [&](const GradientSlice& slice) {
    return slice.holders == largest.holders && slice.elements == largest.elements &&
           sums_at_once.OnHosts(slice);
  });
  if (LibrarySumsOf(problem, devices, GroupUse::kGradients, on_hosts) != nullptr) {
    const double seconds = choosing.Seconds(choosing.GroupOf(devices, at_once, on_hosts), largest.elements);
    return absl::StrCat(text, problem.devices[devices.front()].group_library, " in ", Seconds(seconds),
                        ", as was measured of it");
  }
  absl::StrAppend(&text, NameOf(largest.choice.algorithm), " in ", Seconds(largest.choice.predicted_seconds),
                  problem.forced_all_reduce.has_value() ? " because the job forces that" : "");
  std::vector<std::string> others;
  for (const CollectiveAlgorithm algorithm :
       {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kHalvingDoubling, CollectiveAlgorithm::kTree,
        CollectiveAlgorithm::kHierarchical}) {
    if (algorithm == largest.choice.algorithm) continue;
    // Where nothing shows how to nest it, a hierarchy is a ring.
    if (algorithm == CollectiveAlgorithm::kHierarchical && !choosing.Nests(devices)) continue;
    const CollectiveChoice other = choosing.Choose(devices, largest.elements, at_once, algorithm);
    others.push_back(absl::StrCat(NameOf(algorithm), " would take ", Seconds(other.predicted_seconds)));
  }
  if (!others.empty()) absl::StrAppend(&text, "; ", absl::StrJoin(others, ", "));
  return text;
}

std::vector<int> DevicesOfUnit(const PlanningProblem& problem, const Unit& unit) {
  std::vector<int> devices;
  for (const std::string& name : unit.devices)
    devices.push_back(static_cast<int>(FindDevice(problem, name) - problem.devices.data()));
  return devices;
}

// Which way a unit of devices with memory of their own exchanges; empty: the hosts reach all memory.
std::string DescribeExchangeWay(const PlanningProblem& problem, const Unit& unit) {
  const std::vector<int> devices = DevicesOfUnit(problem, unit);
  if (GroupWayOf(problem, devices, GroupUse::kPasses) == GroupWay::kLibrary) {
    const bool is_measured = LibrarySumsOf(problem, devices, GroupUse::kPasses) != nullptr;
    return absl::StrCat(
        ", by ", problem.devices[devices.front()].group_library,
        is_measured ? ", as was measured of it" : ", which is taken to be as fast as the measured links");
  }
  const bool copies = std::any_of(devices.begin(), devices.end(),
                                  [&](int device) { return problem.devices[device].has_own_memory; });
  return copies ? ", through the memory of hosts" : "";
}

// What a unit in sequence parallelism does with the rows of its largest micro-batch.
std::string DescribeRows(const PlanningProblem& problem, const Plan& plan, UnitId unit) {
  const std::vector<int> devices = DevicesOfUnit(problem, plan.units[unit]);
  Reductions choosing(problem);
  const int group = choosing.GroupOf(devices);
  const int64_t rows = int64_t{LargestMicroBatch(VisitsOf(plan, unit))} * problem.shape.sequence;
  const Bytes bytes = {rows * problem.shape.model.hidden * SizeOf(plan.units[unit].activations).value};
  return absl::StrCat("; the rows of a micro-batch, ", FormatBytes(bytes),
                      ", are cut among them, gathered in ", Seconds(choosing.GatherSeconds(group, bytes)),
                      " and summed to parts in ", Seconds(choosing.ScatterSeconds(group, bytes)),
                      " each time");
}

// What it brings that a unit cuts micro-batches into parts; empty: it does not.
absl::StatusOr<std::string> DescribeCut(const PlanningProblem& problem, const Plan& plan, UnitId unit) {
  const int parts = plan.units[unit].exchange_parts;
  if (parts == 1) return std::string();
  Plan uncut = plan;
  uncut.units[unit].exchange_parts = 1;
  ASSIGN_OR_RETURN(const double seconds, PredictStepSeconds(problem, uncut));
  return absl::StrCat(" beside what they compute of other parts; micro-batches are cut into ", parts,
                      " parts, and if they were not, a step would take ", Seconds(seconds));
}

// What a unit that sums of whole micro-batches would bring by cutting them in two; empty: it cannot, or nobody knows what parts take.
std::string DescribeUncut(const PlanningProblem& problem, const Plan& plan, UnitId unit) {
  if (plan.units[unit].exchange_parts > 1) return "";
  Plan cut = plan;
  cut.units[unit].exchange_parts = 2;
  const absl::StatusOr<double> seconds = PredictStepSeconds(problem, cut);
  if (!seconds.ok()) return "";
  return absl::StrCat("; with each micro-batch in 2 parts a step would take ", Seconds(*seconds));
}

// Of the unit that takes longest over it.
absl::StatusOr<std::string> DescribeExchanges(const PlanningProblem& problem, const Plan& plan,
                                              const Portrait& portrait) {
  if (portrait.exchanging < 0) return std::string();
  ASSIGN_OR_RETURN(const std::vector<ReductionChoice> exchanges, ExchangesOf(problem, plan));
  const Unit& unit = plan.units[portrait.exchanging];
  ASSIGN_OR_RETURN(const std::string parts, DescribeCut(problem, plan, portrait.exchanging));
  std::string text = absl::StrCat(
      portrait.exchanging_devices, " sum and give each other activations and their gradients for ",
      Seconds(portrait.exchange_seconds), " of the step's ", Seconds(portrait.prediction.step_seconds), parts,
      DescribeExchangeWay(problem, unit));
  if (unit.sequence_parallel) return absl::StrCat(text, DescribeRows(problem, plan, portrait.exchanging));
  const ReductionChoice* largest = nullptr;
  for (const ReductionChoice& exchange : exchanges) {
    if (exchange.holders.front() != FirstRankOf(plan, portrait.exchanging)) continue;
    if (largest == nullptr || exchange.elements > largest->elements) largest = &exchange;
  }
  if (largest != nullptr) {
    const std::vector<int> devices = DevicesOfUnit(problem, unit);
    absl::StrAppend(&text, "; the largest, ",
                    FormatBytes({largest->elements * SizeOf(unit.activations).value}));
    if (LibrarySumsOf(problem, devices, GroupUse::kPasses) != nullptr) {
      Reductions sums(problem);
      absl::StrAppend(
          &text, ", takes ",
          Seconds(sums.ExchangeSeconds(sums.GroupOf(devices), largest->elements, unit.activations)));
    } else {
      absl::StrAppend(&text, ", goes by ", NameOf(largest->choice.algorithm), " in ",
                      Seconds(largest->choice.predicted_seconds));
    }
  }
  return absl::StrCat(text, DescribeUncut(problem, plan, portrait.exchanging));
}

// With the kinds of its devices for their names: of many devices nobody reads these.
Plan NamingKinds(const PlanningProblem& problem, Plan plan) {
  std::map<std::string, std::string> kinds;
  for (const DeviceCost& device : problem.devices) kinds[device.name] = device.kind;
  for (Unit& unit : plan.units) {
    for (std::string& name : unit.devices) name = kinds[name];
  }
  return plan;
}

std::string DescribeUnused(const std::vector<Explanation::Device>& devices, bool by_name) {
  std::vector<std::string> names;
  std::map<std::string, int> counts;  // by kind
  for (const Explanation::Device& device : devices) {
    if (device.used) continue;
    names.push_back(device.name);
    ++counts[device.kind];
  }
  if (names.empty()) return "";
  const auto of_kind = [](std::string* out, const auto& kind) {
    absl::StrAppend(out, kind.second, " of ", kind.first);
  };
  return absl::StrCat(
      " Not used: ", by_name ? absl::StrJoin(names, ", ") : absl::StrJoin(counts, ", ", of_kind), ".");
}

std::string Summary(const PlanningProblem& problem, const Plan& plan, const Explanation& explanation,
                    const StepPrediction& prediction) {
  const bool by_name = problem.devices.size() <= kMostSearchedDevices;
  return absl::StrFormat(
             "%s. A step is predicted to take %s (%.0f tokens/s); the devices in use compute "
             "%s of the time.",
             Describe(by_name ? plan : NamingKinds(problem, plan)), Seconds(prediction.step_seconds),
             prediction.tokens_per_second, Percent(1 - explanation.bubble_share)) +
         DescribeUnused(explanation.devices, by_name);
}

}  // namespace

absl::StatusOr<Explanation> ExplainPlan(const PlanningProblem& problem, const Plan& plan) {
  RETURN_IF_ERROR(CheckProblem(problem));
  ASSIGN_OR_RETURN(const Portrait portrait, PortraitOf(problem, plan));
  const StepPrediction& prediction = portrait.prediction;
  Explanation explanation;
  explanation.step_seconds = prediction.step_seconds;
  const std::vector<RankWork> works = WorkOfRanks(problem, plan, prediction);
  const std::map<std::string, Rank> rank_of = RanksByDevice(plan);
  explanation.devices = DevicesOf(problem, prediction, rank_of, works);
  explanation.kinds = KindsOf(explanation.devices, rank_of, works);
  double busy_share = 0;
  for (const Explanation::Device& device : explanation.devices) busy_share += device.busy_share;
  explanation.bubble_share = 1 - busy_share / static_cast<double>(prediction.ranks.size());
  explanation.bottleneck = BottleneckOf(portrait);
  explanation.messages = DescribeProtection(problem.message_protection);
  ASSIGN_OR_RETURN(explanation.reductions, DescribeReductions(problem, plan));
  ASSIGN_OR_RETURN(explanation.exchanges, DescribeExchanges(problem, plan, portrait));
  explanation.summary = Summary(problem, plan, explanation, prediction);
  return explanation;
}

absl::StatusOr<Explanation> ExplainAndCompare(const PlanningProblem& problem, const Plan& plan,
                                              const SearchLimits& limits) {
  ASSIGN_OR_RETURN(Explanation explanation, ExplainPlan(problem, plan));
  const bool few = problem.devices.size() <= kMostSearchedDevices;
  std::vector<Alternative> alternatives;
  if (few) {
    ASSIGN_OR_RETURN(alternatives, BestOfEachKind(problem, limits));
  } else {
    alternatives.push_back(EvenSplitOfMany(problem, limits));
  }
  for (Alternative& nearby : NearbyPlans(problem, plan, limits)) alternatives.push_back(std::move(nearby));
  if (limits.stopped()) return absl::CancelledError("planning was stopped before other kinds were searched");
  for (const Alternative& alternative : alternatives) {
    if (alternative.plan.ok() && alternative.plan->plan == plan) continue;
    Explanation::Rejected& rejected = explanation.rejected.emplace_back();
    rejected.kind = alternative.kind;
    if (!alternative.plan.ok()) {
      rejected.description = "none";
      rejected.why_slower = std::string(alternative.plan.status().message());
      continue;
    }
    rejected.description = alternative.description;
    rejected.step_seconds = alternative.plan->step_seconds;
    if (problem.devices.size() <= kMostPortrayed) {
      ASSIGN_OR_RETURN(const Portrait other, PortraitOf(problem, alternative.plan->plan));
      rejected.why_slower = WhySlower(problem, other, explanation.step_seconds);
    } else {
      const double longer = rejected.step_seconds / explanation.step_seconds - 1;
      rejected.why_slower = std::abs(longer) < 0.005
                                ? "a step would take as long"
                                : absl::StrCat("a step would take ", Percent(std::abs(longer)),
                                               longer < 0 ? " less" : " longer");
    }
  }
  explanation.helps = WhatHelps(problem, plan, limits);
  if (problem.devices.size() > kMostPlannedAnew)
    explanation.helps_not_tried = "not tried of so many devices: more memory";
  return explanation;
}

}  // namespace medley
