#include "coordinator/planner/explained_sums.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/planner/format_figures.h"
#include "coordinator/predictor/library_sums.h"
#include "coordinator/predictor/predict.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/program/program.h"

namespace medley {
namespace {

const ReductionChoice& LargestOf(const std::vector<ReductionChoice>& sums) {
  return *std::max_element(sums.begin(), sums.end(), [](const ReductionChoice& a, const ReductionChoice& b) {
    return a.elements != b.elements ? a.elements < b.elements : a.holders.size() < b.holders.size();
  });
}

// What the algorithms that were not chosen would take; empty: there are none.
std::string DescribeOtherAlgorithms(const Reductions& reductions, const std::vector<int>& devices,
                                    const ReductionChoice& sum, int at_once) {
  std::vector<std::string> others;
  for (const CollectiveAlgorithm algorithm :
       {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kHalvingDoubling, CollectiveAlgorithm::kTree,
        CollectiveAlgorithm::kHierarchical}) {
    if (algorithm == sum.choice.algorithm) continue;
    // Where nothing shows how to nest it, a hierarchy is a ring.
    if (algorithm == CollectiveAlgorithm::kHierarchical && !reductions.Nests(devices)) continue;
    const CollectiveChoice other = reductions.Choose(devices, sum.elements, at_once, algorithm);
    others.push_back(absl::StrCat(NameOf(algorithm), " would take ", FormatSeconds(other.predicted_seconds)));
  }
  return others.empty() ? "" : absl::StrCat("; ", absl::StrJoin(others, ", "));
}

std::vector<int> DevicesOfUnit(const PlanningProblem& problem, const Unit& unit) {
  std::vector<int> devices;
  for (const std::string& name : unit.devices)
    devices.push_back(static_cast<int>(FindDevice(problem, name) - problem.devices.data()));
  return devices;
}

// Which way a unit of devices with memory of their own exchanges; empty: the hosts reach all memory. `is_measured`: by their library, what
// that takes.
std::string DescribeExchangeWay(const PlanningProblem& problem, const std::vector<int>& devices,
                                bool is_measured) {
  if (GroupWayOf(problem, devices, GroupUse::kPasses) == GroupWay::kLibrary) {
    return absl::StrCat(
        ", by ", problem.devices[devices.front()].group_library,
        is_measured ? ", as was measured of it" : ", which is taken to be as fast as the measured links");
  }
  const bool copies = std::any_of(devices.begin(), devices.end(),
                                  [&](int device) { return problem.devices[device].has_own_memory; });
  return copies ? ", through the memory of hosts" : "";
}

// What a unit in sequence parallelism does with the rows of its largest micro-batch.
std::string DescribeRows(const PlanningProblem& problem, const Plan& plan, UnitId unit, int group,
                         Reductions& reductions) {
  const int64_t rows = int64_t{LargestMicroBatch(VisitsOf(plan, unit))} * problem.shape.sequence;
  const Bytes bytes = {rows * problem.shape.model.hidden * SizeOf(plan.units[unit].activations).value};
  return absl::StrCat("; the rows of a micro-batch, ", FormatBytes(bytes),
                      ", are cut among them, gathered in ",
                      FormatSeconds(reductions.GatherSeconds(group, bytes)), " and summed to parts in ",
                      FormatSeconds(reductions.ScatterSeconds(group, bytes)), " each time");
}

// What it brings that a unit cuts micro-batches into parts; empty: it does not.
absl::StatusOr<std::string> DescribeCut(const PlanningProblem& problem, const Plan& plan, UnitId unit) {
  const int parts = plan.units[unit].exchange_parts;
  if (parts == 1) return std::string();
  Plan uncut = plan;
  uncut.units[unit].exchange_parts = 1;
  ASSIGN_OR_RETURN(const double seconds, PredictStepSeconds(problem, uncut));
  return absl::StrCat(" beside what they compute of other parts; micro-batches are cut into ", parts,
                      " parts, and if they were not, a step would take ", FormatSeconds(seconds));
}

// What a unit that sums of whole micro-batches would bring by cutting them in two; empty: it cannot, or nobody knows what parts take.
std::string DescribeUncut(const PlanningProblem& problem, const Plan& plan, UnitId unit) {
  if (plan.units[unit].exchange_parts > 1) return "";
  Plan cut = plan;
  cut.units[unit].exchange_parts = 2;
  const absl::StatusOr<double> seconds = PredictStepSeconds(problem, cut);
  if (!seconds.ok()) return "";
  return absl::StrCat("; with each micro-batch in 2 parts a step would take ", FormatSeconds(*seconds));
}

}  // namespace

absl::StatusOr<std::string> DescribeReductions(const PlanningProblem& problem, const Plan& plan,
                                               Reductions& reductions) {
  ASSIGN_OR_RETURN(const std::vector<ReductionChoice> sums, ReductionsOf(problem, plan, reductions));
  if (sums.empty()) return std::string();
  const ReductionChoice& largest = LargestOf(sums);
  ASSIGN_OR_RETURN(const std::vector<int> device_of_rank, DevicesOfRanks(DevicesByName(problem), plan));
  const SumsAtOnce sums_at_once(problem, plan, device_of_rank);
  const int at_once = sums_at_once.Over(largest.holders);
  std::vector<int> devices;
  std::vector<std::string> names;
  for (const Rank rank : largest.holders) {
    devices.push_back(device_of_rank[rank]);
    names.push_back(problem.devices[devices.back()].name);
  }
  const std::vector<GradientSlice> slices = SlicesOf(plan, largest.holders.front(), problem.shape.model);
  const GradientSlice& slice = *std::find_if(slices.begin(), slices.end(), [&](const GradientSlice& one) {
    return one.holders == largest.holders && one.elements == largest.elements;
  });
  const bool on_hosts = std::any_of(slices.begin(), slices.end(), [&](const GradientSlice& one) {
    return one.holders == largest.holders && one.elements == largest.elements && sums_at_once.OnHosts(one);
  });
  const bool is_by_library = LibrarySumsOf(problem, devices, GroupUse::kGradients, on_hosts) != nullptr;
  const double bytes = problem.wire_bytes_per_element * static_cast<double>(largest.elements);
  const std::string text = absl::StrCat(
      "the largest sum of gradients, ", FormatBytes({static_cast<int64_t>(bytes)}),
      problem.wire_bytes_per_element == 2 ? " in bf16" : "", " over ",
      names.size() <= 4 ? absl::StrJoin(names, ", ") : absl::StrCat(names.size(), " devices"), ", goes by ");
  if (!slice.shares.empty()) {
    const SharedSlice shared{devices, slice.shares, slice.elements, at_once, on_hosts};
    const CollectiveChoice whole = reductions.Choose(devices, slice.elements, at_once);
    return absl::StrCat(
        text,
        is_by_library ? problem.devices[devices.front()].group_library
        : reductions.ChooseShared(shared).algorithm == CollectiveAlgorithm::kHalvingDoubling
            ? NameOf(CollectiveAlgorithm::kHalvingDoubling)
            : "a ring",
        ", scattered in ", FormatSeconds(reductions.SharedSeconds(shared, SumPart::kScattered)),
        " and its parameters gathered in ",
        FormatSeconds(reductions.SharedSeconds(shared, SumPart::kGathered)), ", as ",
        is_by_library ? "was measured of its sums" : "its holders share the optimizer's state",
        is_by_library ? ""
                      : absl::StrCat("; whole, it would take ", FormatSeconds(whole.predicted_seconds),
                                     " by ", NameOf(whole.algorithm)));
  }
  if (is_by_library) {
    const double seconds =
        reductions.Seconds(reductions.GroupOf(devices, at_once, on_hosts), largest.elements);
    return absl::StrCat(text, problem.devices[devices.front()].group_library, " in ", FormatSeconds(seconds),
                        ", as was measured of it");
  }
  return absl::StrCat(text, NameOf(largest.choice.algorithm), " in ",
                      FormatSeconds(largest.choice.predicted_seconds),
                      problem.forced_all_reduce.has_value() ? " because the job forces that" : "",
                      DescribeOtherAlgorithms(reductions, devices, largest, at_once));
}

absl::StatusOr<std::string> DescribeExchanges(const PlanningProblem& problem, const Plan& plan,
                                              const UnitExchange& longest, double step_seconds,
                                              Reductions& reductions) {
  if (longest.unit < 0) return std::string();
  ASSIGN_OR_RETURN(const std::vector<ReductionChoice> exchanges, ExchangesOf(problem, plan, reductions));
  const Unit& unit = plan.units[longest.unit];
  const std::vector<int> devices = DevicesOfUnit(problem, unit);
  const int group = reductions.GroupOf(devices);
  const bool is_measured = LibrarySumsOf(problem, devices, GroupUse::kPasses) != nullptr;
  ASSIGN_OR_RETURN(const std::string parts, DescribeCut(problem, plan, longest.unit));
  std::string text =
      absl::StrCat(longest.devices, " sum and give each other activations and their gradients for ",
                   FormatSeconds(longest.seconds), " of the step's ", FormatSeconds(step_seconds), parts,
                   DescribeExchangeWay(problem, devices, is_measured));
  if (unit.sequence_parallel)
    return absl::StrCat(text, DescribeRows(problem, plan, longest.unit, group, reductions));
  const ReductionChoice* largest = nullptr;
  for (const ReductionChoice& exchange : exchanges) {
    if (exchange.holders.front() != FirstRankOf(plan, longest.unit)) continue;
    if (largest == nullptr || exchange.elements > largest->elements) largest = &exchange;
  }
  if (largest != nullptr) {
    absl::StrAppend(&text, "; the largest, ",
                    FormatBytes({largest->elements * SizeOf(unit.activations).value}));
    if (is_measured) {
      absl::StrAppend(&text, ", takes ",
                      FormatSeconds(reductions.ExchangeSeconds(group, largest->elements, unit.activations)));
    } else {
      absl::StrAppend(&text, ", goes by ", NameOf(largest->choice.algorithm), " in ",
                      FormatSeconds(largest->choice.predicted_seconds));
    }
  }
  return absl::StrCat(text, DescribeUncut(problem, plan, longest.unit));
}

}  // namespace medley
