#pragma once
#include <utility>
#include <vector>

#include "runtime/ir/model/parameters.h"

namespace medley {

// Runs of segments that the same hold, from the last to the first, in which order gradients are summed:
// visit(holders, first segment, end segment). `segments`: those with parameters, descending. `holders_of`: of a segment,
// some value that can be compared; runs of an empty one are passed over.
template <typename HoldersOf, typename Visit>
void ForEachHolderRun(const std::vector<SegmentId>& segments, const HoldersOf& holders_of,
                      const Visit& visit) {
  decltype(holders_of(SegmentId())) holders;
  SegmentId end_segment = 0, first_segment = 0;
  const auto end_run = [&] {
    if (!holders.empty()) visit(holders, first_segment, end_segment);
  };
  for (const SegmentId segment : segments) {
    auto next = holders_of(segment);
    if (next != holders) {
      end_run();
      holders = std::move(next);
      end_segment = segment + 1;
    }
    first_segment = segment;
  }
  end_run();
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
