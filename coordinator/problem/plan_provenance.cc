#include "coordinator/problem/plan_provenance.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/problem/planning_problem.h"

namespace medley {
namespace {

std::map<std::string, const v1::Device*> DevicesOf(const v1::ClusterSpec& cluster) {
  std::map<std::string, const v1::Device*> devices;
  for (const v1::Node& node : cluster.nodes()) {
    for (const v1::Device& device : node.devices())
      devices[absl::StrCat(node.name(), "/", device.name())] = &device;
  }
  return devices;
}

// The newest profile of each kind for `training`.
std::map<std::string, const v1::DeviceProfile*> NewestProfiles(const TrainingSpec& training,
                                                               const v1::ClusterSpec& cluster) {
  std::map<std::string, const v1::DeviceProfile*> newest;
  const std::string shape = ShapeKey(training);
  for (const v1::DeviceProfile& profile : cluster.profiles()) {
    if (profile.shape() != shape) continue;
    const v1::DeviceProfile*& kind = newest[profile.device_kind()];
    if (kind == nullptr || profile.measured_at_seconds() >= kind->measured_at_seconds()) kind = &profile;
  }
  return newest;
}

v1::ProfileUse UseOf(const v1::DeviceProfile& profile) {
  v1::ProfileUse use;
  use.set_device_kind(profile.device_kind());
  use.set_measured_at_seconds(profile.measured_at_seconds());
  use.set_provenance(profile.provenance());
  for (const v1::BlockPassTimes& times : profile.times()) {
    use.set_spread(std::max(use.spread(), times.spread()));
    if (!times.doubt().empty()) use.add_doubts(times.doubt());
  }
  if (profile.has_correction()) {
    const v1::ProfileCorrection& correction = profile.correction();
    use.set_correction(absl::StrFormat("corrected by job %s over %d steps: x %.2f", correction.job_id(),
                                       correction.steps(), correction.factor()));
  }
  return use;
}

}  // namespace

std::map<std::string, double> CorrectionsOf(const TrainingSpec& training, const v1::ClusterSpec& cluster) {
  std::map<std::string, double> corrections;
  for (const auto& [kind, profile] : NewestProfiles(training, cluster)) {
    if (profile->has_correction()) corrections[kind] = profile->correction().factor();
  }
  return corrections;
}

void AddProvenance(const TrainingSpec& training, const v1::ClusterSpec& cluster, v1::PlanReport& report) {
  const std::map<std::string, const v1::Device*> devices = DevicesOf(cluster);
  std::set<std::string> kinds;
  for (v1::DeviceShare& share : *report.mutable_devices()) {
    const auto device = devices.find(share.device());
    const bool known = device != devices.end();
    share.set_emulated(known && device->second->emulated());
    share.set_computes_f32_instead(known && training.precision == Precision::kBf16 &&
                                   !device->second->computes_bf16());
    if (share.emulated() && share.used()) report.set_emulated(true);
    kinds.insert(share.kind());
  }
  report.clear_profiles();
  for (const auto& [kind, profile] : NewestProfiles(training, cluster)) {
    if (kinds.count(kind) > 0) *report.add_profiles() = UseOf(*profile);
  }
}

}  // namespace medley
