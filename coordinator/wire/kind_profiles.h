#pragma once
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/ir/cluster/cluster.h"
#include "runtime/ir/job/job_constraints.h"
#include "runtime/ir/job/training_spec.h"

namespace medley {

// Adds to `cluster` profiles of each device kind that the job lacks one of whole blocks of and that `directory` has a
// file of (profiles/README.md), "KIND.yaml": of whole blocks, and of what 2, 4, ... devices of a node have of them; by a roofline with the coefficients that were fitted on the most published
// rows. It says of itself that nothing was measured, and how far such times were off. Kinds without a file are left to
// whoever misses their profiles.
// Errors: those of MissingProfiles and ReadDeviceKind; InvalidArgument: no such directory, a file without calibrations.
absl::Status AddKindProfiles(const std::string& directory, const TrainingSpec& spec,
                             const JobConstraints& constraints, Cluster& cluster);

// What a data sheet says of a device, and of what joins those of a node.
struct KindSheet {
  ClusterDevice device;  // named "gpu"; without a price
  LinkCost link_of_node;
};
// Of "DIRECTORY/KIND.yaml". Errors of ReadDeviceKind; InvalidArgument: there is none, names those that there are.
absl::StatusOr<KindSheet> ReadKindSheet(const std::string& directory, const std::string& kind);

}  // namespace medley
