#pragma once
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/cluster/cluster_view.h"
#include "proto/medley/v1/job.pb.h"
#include "runtime/ir/link/message_protection.h"

// How the messages of a job are protected between hosts. Pure.
namespace medley {

// The least that `devices`' nodes and the coordinator, `least`, ask for.
MessageProtection LeastProtection(MessageProtection least, const std::vector<ClusterDeviceLocation>& devices);

// `spec` as it is planned and run on `devices`: its communication.message_protection is the greatest of its own and LeastProtection.
// FailedPrecondition: some of their nodes' agents are of before there were protected messages; names them.
absl::StatusOr<v1::JobSpec> WithProtection(v1::JobSpec spec, MessageProtection least,
                                           const std::vector<ClusterDeviceLocation>& devices);

}  // namespace medley
