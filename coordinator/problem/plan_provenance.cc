#include "coordinator/problem/plan_provenance.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/problem/planning_problem.h"
#include "runtime/ir/cluster/device_profile.h"

namespace medley {
namespace {

// The newest profile of each kind for `training`.
std::map<std::string, const DeviceProfile*> NewestProfiles(const TrainingSpec& training,
                                                           const Cluster& cluster) {
  std::map<std::string, const DeviceProfile*> newest;
  const std::string shape = ShapeKey(training);
  for (const DeviceProfile& profile : cluster.profiles) {
    if (profile.shape != shape) continue;
    const DeviceProfile*& kind = newest[profile.device_kind];
    if (kind == nullptr || profile.measured_at_seconds >= kind->measured_at_seconds) kind = &profile;
  }
  return newest;
}

ProfileUse UseOf(const DeviceProfile& profile) {
  ProfileUse use;
  use.device_kind = profile.device_kind;
  use.measured_at_seconds = profile.measured_at_seconds;
  use.provenance = profile.provenance;
  for (const ProfiledTimes& times : profile.times) {
    use.spread = std::max(use.spread, times.spread);
    if (!times.doubt.empty()) use.doubts.push_back(times.doubt);
  }
  if (profile.correction) {
    use.correction = absl::StrFormat("corrected by job %s over %d steps: x %.2f", profile.correction->job_id,
                                     profile.correction->steps, profile.correction->factor);
  }
  return use;
}

}  // namespace

std::map<std::string, double> CorrectionsOf(const TrainingSpec& training, const Cluster& cluster) {
  std::map<std::string, double> corrections;
  for (const auto& [kind, profile] : NewestProfiles(training, cluster)) {
    if (profile->correction) corrections[kind] = profile->correction->factor;
  }
  return corrections;
}

void AddProvenance(const TrainingSpec& training, const Cluster& cluster, PlanReport& report) {
  std::set<std::string> names, kinds;
  for (const Explanation::Device& device : report.explanation.devices) {
    names.insert(device.name);
    kinds.insert(device.kind);
  }
  report.emulated.clear();
  report.computes_f32_instead.clear();
  for (const ClusterNode& node : cluster.nodes) {
    for (const ClusterDevice& device : node.devices) {
      const std::string name = absl::StrCat(node.name, "/", device.description.name);
      if (!names.contains(name)) continue;
      if (device.emulated) report.emulated.insert(name);
      if (device.computes.For(training.precision) != training.precision)
        report.computes_f32_instead.insert(name);
    }
  }
  report.profiles.clear();
  for (const auto& [kind, profile] : NewestProfiles(training, cluster)) {
    if (kinds.contains(kind)) report.profiles.push_back(UseOf(*profile));
  }
}

}  // namespace medley
