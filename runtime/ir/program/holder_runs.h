#pragma once
#include <numeric>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "runtime/ir/model/parameters.h"
#include "runtime/ir/program/sum_order.h"

namespace medley {

// Consecutive segments [first, end) that the same hold.
template <typename Holders>
struct HolderRun {
  Holders holders;
  SegmentId first_segment = 0, end_segment = 0;
};

// Runs of segments that the same hold, from the last to the first. `segments`: those with parameters, descending.
// `holders_of`: of a segment, their numbers, none negative, in some order; runs of none are passed over.
template <typename HoldersOf>
auto HolderRunsOf(const std::vector<SegmentId>& segments, const HoldersOf& holders_of) {
  std::vector<HolderRun<decltype(holders_of(SegmentId()))>> runs;
  bool is_new = true;
  for (const SegmentId segment : segments) {
    auto holders = holders_of(segment);
    is_new = is_new || holders != runs.back().holders;
    if (holders.empty()) continue;
    if (is_new) runs.push_back({std::move(holders), segment, segment + 1});
    runs.back().first_segment = segment;
    is_new = false;
  }
  return runs;
}

// Whether no two runs have a holder in common; the last one may, which is that of tied embeddings. They are then summed
// as they stand.
template <typename Holders, typename IsSummed>
bool AreApart(const std::vector<HolderRun<Holders>>& runs, const IsSummed& is_summed) {
  absl::InlinedVector<char, 64> seen;
  for (size_t r = 0; r + 1 < runs.size(); ++r) {
    if (!is_summed(runs[r])) continue;
    for (const int holder : runs[r].holders) {
      if (static_cast<size_t>(holder) >= seen.size()) seen.resize(holder + 1, 0);
      if (seen[holder]++ != 0) return false;
    }
  }
  return true;
}

// The order in which they are summed (OrderOfSums). `is_summed`: whether a run's holders sum it with anybody.
template <typename Holders, typename IsSummed>
std::vector<int> OrderOfSums(const ModelConfig& config, const std::vector<HolderRun<Holders>>& runs,
                             const IsSummed& is_summed) {
  if (AreApart(runs, is_summed)) {
    std::vector<int> order(runs.size());
    std::iota(order.begin(), order.end(), 0);
    return order;
  }
  std::vector<SummedRun> summed;
  for (const HolderRun<Holders>& run : runs) {
    SummedRun& added = summed.emplace_back();
    added.holders.assign(run.holders.begin(), run.holders.end());
    added.is_summed = is_summed(run);
    for (SegmentId s = run.first_segment; s < run.end_segment; ++s)
      added.elements += SegmentElements(config, s);
  }
  return OrderOfSums(summed);
}

// The segments of a model that have parameters, descending.
inline std::vector<SegmentId> FilledSegments(const ModelConfig& config) {
  std::vector<SegmentId> filled;
  for (int segment = SegmentCount(config) - 1; segment >= 0; --segment) {
    if (SegmentElements(config, segment) > 0) filled.push_back(segment);
  }
  return filled;
}

}  // namespace medley
