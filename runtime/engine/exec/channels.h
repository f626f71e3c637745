#pragma once
#include <cstdint>

#include "comm/transport/transport.h"
#include "runtime/ir/model/parameters.h"
#include "runtime/ir/plan/plan.h"

// Whose the channels of messages are (MessageTag) that ranks send each other for a plan. What a step sums, and what the
// ranks of a unit exchange within its passes, goes side by side and is of one kind, so that these never share one.
namespace medley {

inline constexpr uint16_t kCheckpointChannel = kMaximumChannels - 1;  // of what GatherSegments collects
inline constexpr uint16_t kUnitChannel = kMaximumChannels - 2;        // of a unit's exchanges within passes
inline constexpr int kSliceChannels = kMaximumChannels - 2;           // those below: of slices

// Of what the holders of a slice exchange that begins with `first_segment`. They go through the slices that they share
// in one order, so that two of one channel cannot be taken for each other.
inline uint16_t ChannelOfSlice(SegmentId first_segment) {
  return static_cast<uint16_t>(first_segment % kSliceChannels);
}

// Of activations and their gradients, which are kinds of their own: in order under one tag, so that a boundary may come
// again after two thousand stages.
inline uint16_t ChannelOfBoundary(StageId boundary) {
  return static_cast<uint16_t>(boundary % kMaximumChannels);
}

}  // namespace medley
