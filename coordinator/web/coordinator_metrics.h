#pragma once
#include <vector>

#include "proto/medley/v1/coordinator.pb.h"
#include "runtime/web/open_metrics.h"

namespace medley {

// What the coordinator knows, as figures. README.md beside this file lists them. `jobs`: newest first, as many as are to be counted;
// those that have not ended, and the newest that have, have figures of their own.
void AddJobFigures(const std::vector<v1::Job>& jobs, double now_seconds, OpenMetrics& metrics);

void AddNodeFigures(const std::vector<v1::Node>& nodes, OpenMetrics& metrics);

// Of the newest traced step of each job that runs: what devices did with it, and what went between them since the attempt began.
void AddTraceFigures(const std::vector<v1::Trace>& traces, OpenMetrics& metrics);

}  // namespace medley
