#include "coordinator/problem/plan_provenance.h"

#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/problem/planning_problem.h"

namespace medley {
namespace {

std::set<std::string> EmulatedDevices(const v1::ClusterSpec& cluster) {
  std::set<std::string> names;
  for (const v1::Node& node : cluster.nodes()) {
    for (const v1::Device& device : node.devices()) {
      if (device.emulated()) names.insert(absl::StrCat(node.name(), "/", device.name()));
    }
  }
  return names;
}

}  // namespace

void AddProvenance(const TrainingSpec& training, const v1::ClusterSpec& cluster, v1::PlanReport& report) {
  const std::set<std::string> emulated = EmulatedDevices(cluster);
  std::map<std::string, const v1::DeviceProfile*> newest;  // by kind
  for (v1::DeviceShare& share : *report.mutable_devices()) {
    share.set_emulated(emulated.count(share.device()) > 0);
    if (share.emulated() && share.used()) report.set_emulated(true);
    newest[share.kind()] = nullptr;
  }
  const std::string shape = ShapeKey(training);
  for (const v1::DeviceProfile& profile : cluster.profiles()) {
    const auto kind = newest.find(profile.device_kind());
    if (kind == newest.end() || profile.shape() != shape) continue;
    const v1::DeviceProfile* before = kind->second;
    if (before == nullptr || profile.measured_at_seconds() >= before->measured_at_seconds())
      kind->second = &profile;
  }
  report.clear_profiles();
  for (const auto& [kind, profile] : newest) {
    if (profile == nullptr) continue;
    v1::ProfileUse& use = *report.add_profiles();
    use.set_device_kind(kind);
    use.set_measured_at_seconds(profile->measured_at_seconds());
    use.set_provenance(profile->provenance());
  }
}

}  // namespace medley
