#pragma once
#include <vector>

#include "coordinator/cluster/cluster_view.h"
#include "coordinator/orchestrator/link_pairs.h"
#include "coordinator/orchestrator/link_table.h"

namespace medley {

// A class with so many kinds of links among the devices at hand, or fewer, has each of them measured; of one with more
// kinds a few are.
inline constexpr int kMeasuredEach = 28;  // pairs of eight nodes

// The links to measure next among `devices`, of each kind at most one; none: what is known is enough. To be asked again
// when those have been measured, for of classes with many kinds LinkTable::kFewestSamples are measured at first, spread
// over the nodes and over the racks; while these disagree twice as many, up to LinkTable::kMostSamples. No more is measured of a class
// either of which kMeasuredEach are known that agree. In the order of `devices`. Takes time by the number of devices and,
// of each two networks, sites and kinds, by that of racks, not by that of pairs of devices or of racks. Pure.
std::vector<DevicePair> PairsToMeasure(const std::vector<ClusterDeviceLocation>& devices,
                                       const LinkTable& known);

}  // namespace medley
