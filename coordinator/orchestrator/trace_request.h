#pragma once
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "coordinator/orchestrator/agent_client.h"
#include "coordinator/orchestrator/live_trace.h"
#include "proto/medley/v1/coordinator.pb.h"

namespace medley {

// Serves one Coordinator.TraceSteps of `job`, as it runs: has its ranks agree upon steps that none has begun, and hands what `live` gets of
// them on until all are there. `live` is fed by whoever hears of the ranks. Blocks.
//
// `update` says false when nobody reads any more, `cancelled`, asked several times a second, true: then, and after every error, the ranks
// are told to trace no more. Errors: those of the rpc, but for a job that is traced already; Cancelled: nobody reads.
absl::Status ServeTrace(const v1::Job& job, uint32_t steps, AgentClient& agents, LiveTrace& live,
                        const std::function<bool(const v1::TraceStepsUpdate&)>& update,
                        const std::function<bool()>& cancelled);

}  // namespace medley
