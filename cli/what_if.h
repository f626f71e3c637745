#pragma once
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/medley/v1/cluster.pb.h"
#include "proto/medley/v1/coordinator.pb.h"

namespace medley {

// What is changed of a cluster, as options say it, in this order.
struct WhatIfChanges {
  std::optional<v1::ClusterSpec> other;  // a cluster in its place
  std::string other_name;                // of its file
  std::vector<std::string> removes;      // a node, a group of nodes, or "node/device"
  std::vector<std::string> adds;         // "kind=K,count=N[,node=NAME][,price=P][,site=S][,rack=R]"
  std::vector<std::string> links;        // "A-B=10Gbit[,50us]": devices, nodes, kinds or sites

  bool any() const { return other.has_value() || !removes.empty() || !adds.empty() || !links.empty(); }
};

// Of kinds that the cluster does not have, or has no profile of.
struct DataSheets {
  std::string directory;        // profiles/, or one like it; empty: none
  bool of_added_alone = false;  // only kinds that the changes add have profiles by them
};

struct ChangedCluster {
  v1::ClusterSpec cluster;
  std::set<std::string> kinds_by_sheet;  // what data sheets say that was added
  std::vector<std::string>
      added;  // for people: what, and at which site it came to be if the cluster names any
};

// `today` with the changes. A kind that is added is one of the devices' that are there before, in any case, or what
// ReadKindSheet finds. InvalidArgument "--OPTION VALUE: ...": what is wrong with it, and what there is. Errors of DecodeCluster,
// behind "--cluster: " or "today's cluster: ".
absl::StatusOr<ChangedCluster> ChangeCluster(const v1::ClusterSpec& today, const WhatIfChanges& changes,
                                             const DataSheets& sheets = {});

// A job on a cluster and on the changed one, planned as PlanOffline plans, without a comparison with plans of other kinds.
// Errors of both; of the changed cluster with "with the changes: " before them.
absl::StatusOr<v1::WhatIfReport> AnswerWhatIf(const v1::PlanJobRequest& request, const v1::ClusterSpec& today,
                                              const WhatIfChanges& changes, const DataSheets& sheets = {});

}  // namespace medley
