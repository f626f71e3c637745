#pragma once
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/worker/task.h"
#include "comm/communicator/communicator.h"
#include "proto/medley/v1/agent.pb.h"

namespace medley {

// What a task talks to its `peers` with, as rank `rank` of `size`: over the network interfaces nearest to
// its device, of those that the site allows. Errors: of Communicator::Create;
// FailedPrecondition: this process may not open as many connections as it has peers.
absl::StatusOr<std::unique_ptr<Communicator>> MakeCommunicator(const v1::PrepareRequest& request,
                                                               const WorkerSite& site, int rank, int size,
                                                               std::vector<int> peers,
                                                               MessageProtection protection);

}  // namespace medley
