#pragma once
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/ir/cluster/cluster.h"
#include "runtime/ir/job/job_constraints.h"
#include "runtime/ir/job/training_spec.h"

namespace medley {

// Adds to `cluster` profiles of each device kind that the job lacks one of whole blocks of and that `directory` has a
// file of (profiles/README.md), "KIND.yaml": of whole blocks, and of what 2, 4, ... devices of a node have of them; by a roofline. Its
// coefficients are of the software that most of these kinds were measured with, for devices side by side are planned by what they take of
// each other's time; of several, of the one with the most published rows. What devices of these kinds compute jobs in is what their
// files say. A profile says of itself that nothing was measured. Kinds without a file are left to
// whoever misses their profiles. `only`: those of these kinds; none: of all.
// Errors: those of MissingProfiles and ReadDeviceKind; InvalidArgument: no such directory, a file without calibrations, or without a rate
// of f32 where its devices compute the job in that.
absl::Status AddKindProfiles(const std::string& directory, const TrainingSpec& spec,
                             const JobConstraints& constraints, Cluster& cluster,
                             const std::optional<std::set<std::string>>& only = std::nullopt);

// What a data sheet says of a device, and of what joins those of a node.
struct KindSheet {
  ClusterDevice device;  // named "gpu"; without a price
  LinkCost link_of_node;
};
// Of "DIRECTORY/KIND.yaml", where case does not matter; where there is none, of the only one whose name begins with KIND and a
// dash, as "L4-24" does with "L4". The device's kind is the file's name.
// Errors of ReadDeviceKind; InvalidArgument: no such directory; there is none, or several: names them.
absl::StatusOr<KindSheet> ReadKindSheet(const std::string& directory, const std::string& kind);

}  // namespace medley
