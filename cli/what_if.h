#pragma once
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/medley/v1/cluster.pb.h"
#include "proto/medley/v1/coordinator.pb.h"

namespace medley {

// What is changed of a cluster, as options say it, in this order.
struct WhatIfChanges {
  std::optional<v1::ClusterSpec> with;  // another cluster in its place
  std::string with_name;                // of its file
  std::vector<std::string> removes;     // a node, a group of nodes, or "node/device"
  std::vector<std::string> adds;        // "kind=K,count=N[,node=NAME][,price=P]"
  std::vector<std::string> links;       // "A-B=10Gbit[,50us]": devices, nodes, kinds or sites

  bool any() const { return with.has_value() || !removes.empty() || !adds.empty() || !links.empty(); }
};

// `cluster` with the changes. `kinds_directory`: of data sheets (profiles/), for kinds that are not in the cluster;
// empty: none. InvalidArgument "--OPTION VALUE: ...": what is wrong with it, and what there is. Errors of DecodeCluster.
absl::StatusOr<v1::ClusterSpec> ChangedCluster(const v1::ClusterSpec& cluster, const WhatIfChanges& changes,
                                               const std::string& kinds_directory = "");

// A job on a cluster and on the changed one, planned as PlanOffline plans, without a comparison with plans of other kinds.
// Errors of both; of the changed cluster with "with the changes: " before them.
absl::StatusOr<v1::WhatIfReport> AnswerWhatIf(const v1::PlanJobRequest& request,
                                              const v1::ClusterSpec& cluster, const WhatIfChanges& changes,
                                              const std::string& kinds_directory = "");

}  // namespace medley
