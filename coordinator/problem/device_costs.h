#pragma once
#include <string>
#include <vector>

#include "coordinator/predictor/cost_model.h"
#include "coordinator/problem/cluster_links.h"
#include "runtime/ir/cluster/cluster.h"
#include "runtime/ir/job/training_spec.h"

// What devices cost the planner, by what was measured of their kinds and what running jobs taught about it. Pure.
namespace medley {

// What is known of how long passes of the device take among the others of its kind, as running jobs showed; null: nothing. Lives as long
// as `cluster`.
const ProfileCorrection* PaceOf(const std::string& device, const std::string& kind, const std::string& shape,
                                const Cluster& cluster);

// With whatever was measured of whole blocks.
DeviceCost MakeDevice(const AllowedDevice& device, const std::vector<int>& sizes, const TrainingSpec& spec,
                      const Cluster& cluster);

// Adds what was measured of a share of the blocks' width, if that is all the sizes.
void AddShare(const AllowedDevice& device, const ModelShare& share, const std::vector<int>& sizes,
              const TrainingSpec& spec, const Cluster& cluster, DeviceCost& cost);

// Nodes of one machine each say what it had available when they started: the least of that is there for all. `costs`: of `devices`, and
// their hosts are known.
void SetHostMemory(const std::vector<AllowedDevice>& devices, std::vector<DeviceCost>& costs);

// Devices of a kind on hosts that are alike (alike_hosts.h) get the same, rounded: what differs by noise alone is alike to the
// planner. `costs`: of `devices`.
void AddSlowdowns(const std::vector<AllowedDevice>& devices, const Cluster& cluster, const std::string& shape,
                  std::vector<DeviceCost>& costs);

}  // namespace medley
