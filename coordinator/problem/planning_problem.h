#pragma once
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/planner/planner.h"
#include "coordinator/predictor/cost_model.h"
#include "coordinator/problem/cluster_links.h"
#include "coordinator/problem/known_profiles.h"
#include "runtime/ir/cluster/cluster.h"
#include "runtime/ir/job/job_constraints.h"
#include "runtime/ir/job/training_spec.h"
#include "runtime/ir/model/model_share.h"

namespace medley {

// A device kind whose passes have not been measured for a shape and all of the wanted micro-batch sizes.
struct MissingProfile {
  std::string device_kind;
  std::string device;               // "node/device": the first of this kind in the cluster
  std::optional<ModelShare> share;  // of the blocks' width, AtOrigin; none: whole blocks
  // Whether MakeProblem fails without it. Whole blocks on devices that a pinned plan has share them are not
  // needed: the plan is only compared with others by them.
  bool needed = true;
  std::vector<int> micro_batch_sizes;  // those that are missing, ascending
};

// What is said of emulated devices that a job names and does not allow. `field`: where it names them.
absl::Status EmulatedRefusal(const std::string& field, const std::vector<std::string>& devices);

// What has to be measured before MakeProblem can succeed, or should be, one entry a kind and share: whole blocks
// first. Of the devices that `constraints` allow: all if it names none, but emulated ones only if `spec` allows them.
// FailedPrecondition: the cluster has no devices, or none but such; a named one is not in it. InvalidArgument: two
// nodes, or two devices of a node, have the same name; a device has no memory; a named one is emulated and `spec` does
// not allow that.
absl::StatusOr<std::vector<MissingProfile>> MissingProfiles(const TrainingSpec& spec,
                                                            const JobConstraints& constraints,
                                                            const Cluster& cluster);

// What has to be measured so that ChoosePlan can have devices of a host share the width of blocks, where nothing
// fits without: nothing if something does, or if all is known. Asked again when that is measured it may have
// more to ask for, by how fast the devices were. Once limits.stop is set: anything. Errors as MissingProfiles.
struct SharingNeeds {
  bool nothing_fits_alone = false;      // with one device a unit
  std::vector<MissingProfile> missing;  // one entry a kind and share
  // Devices that can take part in a plan, "node/device": measured with whole blocks or with a share. All others
  // are to be left out before MakeProblem.
  std::vector<std::string> usable;
};
absl::StatusOr<SharingNeeds> FindSharingNeeds(const TrainingSpec& spec, const JobConstraints& constraints,
                                              const Cluster& cluster, const SearchLimits& limits = {});

// Shares of the width with which plans may be faster although something fits without (coordinator/planner/faster_shares.h), of a cluster
// of which MakeProblem misses nothing; none where a plan is pinned. One entry a kind and share. Errors as MakeProblem.
absl::StatusOr<std::vector<MissingProfile>> MissingFasterShares(const TrainingSpec& spec,
                                                                const JobConstraints& constraints,
                                                                const Cluster& cluster);

// The problem of planning `spec` on the allowed devices of `cluster`. Whether nodes are alive and devices
// free is not looked at: give those that may be used.
//
// A device's profile is the newest one of its kind and the spec's shape that has the size in question; in a
// unit of several devices of a pinned plan, of the shape of its share. Without a pinned plan, whatever was
// measured of the shares that ChoosePlan may give it (coordinator/planner/techniques/sharing.h) is there, too, and who has any
// need not have whole blocks. Where nothing fits otherwise, plans may save memory
// (PlanConstraints::saves_memory). Two devices of nodes with an equal `host` (of one node if it has none) that
// share a core share a `processor`, and so does who shares one with either; a `host` likewise. A pair's link
// is the newest one that names both, in either order, or else default_link. What running jobs taught about a
// profile (DeviceProfile::corrections) multiplies its times.
//
// Devices of one host slow each other down as was measured with the spec's shape on hosts like it (alike_hosts.h), equally for
// all of a kind on all such hosts, in hundredths and from 1.02, what running jobs taught about it
// (SharedSlowdown::corrections) counted in; those that share a processor do that instead.
//
// Pure. Errors, beside those of MissingProfiles:
//   NotMeasuredError   a profile that is needed or a link is missing; names kind, shape and sizes, or the pair.
absl::StatusOr<PlanningProblem> MakeProblem(const TrainingSpec& spec, const JobConstraints& constraints,
                                            const Cluster& cluster);

}  // namespace medley
