#pragma once
#include <vector>

#include "proto/medley/v1/cluster.pb.h"
#include "proto/medley/v1/coordinator.pb.h"
#include "runtime/web/open_metrics.h"

namespace medley {

// What an agent knows, as figures: its devices and what its workers are at.
void AddAgentFigures(const v1::Node& node, const std::vector<v1::AgentTask>& tasks, OpenMetrics& metrics);

}  // namespace medley
