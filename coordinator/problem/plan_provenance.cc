#include "coordinator/problem/plan_provenance.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "coordinator/problem/planning_problem.h"
#include "runtime/base/counted.h"
#include "runtime/ir/cluster/device_profile.h"

namespace medley {
namespace {

// The newest profile of each kind for a shape.
std::map<std::string, const DeviceProfile*> NewestProfiles(const std::string& shape, const Cluster& cluster) {
  std::map<std::string, const DeviceProfile*> newest;
  for (const DeviceProfile& profile : cluster.profiles) {
    if (profile.shape != shape) continue;
    const DeviceProfile*& kind = newest[profile.device_kind];
    if (kind == nullptr || profile.measured_at_seconds >= kind->measured_at_seconds) kind = &profile;
  }
  return newest;
}

// "2 of 8 key-value heads, 512 of 1024 columns, 128 of 256 vocabulary rows"
std::string Describe(const ModelShare& share, const ModelConfig& model) {
  const ModelShare whole = WholeModel(model);
  const bool by_queries = share.query_heads.size() > 0;
  return absl::StrCat((by_queries ? share.query_heads : share.key_value_heads).size(), " of ",
                      by_queries ? model.heads : whole.key_value_heads.size(),
                      by_queries ? " query heads, " : " key-value heads, ", share.feed_forward.size(), " of ",
                      whole.feed_forward.size(), " columns, ", share.vocabulary.size(), " of ",
                      whole.vocabulary.size(), " vocabulary rows");
}

// "passes x 0.94 by job gpt-7 over 4 steps, a/gpu0 x 1.40 by job gpt-7 over 8 steps"
std::string DescribeCorrections(const std::vector<TimesUse>& uses, const DeviceProfile& profile) {
  std::vector<std::string> parts;
  const auto add = [&](const std::string& what, const ProfileCorrection& correction) {
    parts.push_back(absl::StrFormat("%s x %.2f by job %s over %s", what, correction.factor, correction.job_id,
                                    Counted(correction.steps, "step")));
  };
  for (const TimesUse& use : uses) {
    if (use.device_kind == profile.device_kind && use.correction) add(NameOf(use.times), *use.correction);
  }
  for (const auto& [device, pace] : profile.devices) add(device, pace);
  return absl::StrJoin(parts, ", ");
}

// `times_used`: TimesUsed of the shape that the profile is of.
ProfileUse UseOf(const DeviceProfile& profile, const std::vector<TimesUse>& times_used) {
  ProfileUse use;
  use.device_kind = profile.device_kind;
  use.measured_at_seconds = profile.measured_at_seconds;
  use.provenance = profile.provenance;
  for (const ProfiledTimes& times : profile.times) {
    use.spread = std::max(use.spread, times.spread);
    if (!times.doubt.empty()) use.doubts.push_back(times.doubt);
  }
  use.correction = DescribeCorrections(times_used, profile);
  return use;
}

}  // namespace

std::vector<TimesUse> TimesUsed(const TrainingSpec& training, const Cluster& cluster) {
  std::vector<TimesUse> uses;
  for (const auto& [kind, of_shape] : NewestProfiles(ShapeKey(training), cluster)) {
    const DeviceProfile* const of_copies = FindCopyProfile(cluster, kind);
    for (const TimeClass times : kTimeClasses) {
      const bool copies = times == TimeClass::kFetches || times == TimeClass::kStores;
      const DeviceProfile* const profile = copies ? of_copies : of_shape;
      if (profile == nullptr || !Has(*profile, times)) continue;
      TimesUse& use = uses.emplace_back();
      use = {kind, times, profile->shape, profile->measured_at_seconds,
             FactorOf(profile->corrections, times)};
      const auto own = profile->corrections.find(times);
      if (own != profile->corrections.end()) use.correction = own->second;
    }
  }
  return uses;
}

void AddProvenance(const TrainingSpec& training, const Cluster& cluster, const Plan& plan,
                   PlanReport& report) {
  const ModelConfig& model = training.shape.model;
  std::map<std::string, ModelShare> share_of_device;  // of those in units of several
  for (Rank rank = 0; rank < RankCount(plan); ++rank) {
    if (plan.units[PlaceOf(plan, rank).unit].devices.size() > 1)
      share_of_device.emplace(DeviceOf(plan, rank), AtOrigin(ShareOf(plan, rank, model)));
  }
  std::set<std::string> names, kinds, used_kinds;
  std::vector<std::pair<std::string, ModelShare>> shared;  // kind and share, each once
  for (const Explanation::Device& device : report.explanation.devices) {
    names.insert(device.name);
    if (device.used) used_kinds.insert(device.kind);
    const auto share = share_of_device.find(device.name);
    if (share == share_of_device.end()) {
      kinds.insert(device.kind);
      continue;
    }
    const std::pair<std::string, ModelShare> use(device.kind, share->second);
    if (std::find(shared.begin(), shared.end(), use) == shared.end()) shared.push_back(use);
  }
  report.emulated.clear();
  report.computes_f32_instead.clear();
  for (const ClusterNode& node : cluster.nodes) {
    for (const ClusterDevice& device : node.devices) {
      const std::string name = FullName(node.name, device);
      if (!names.contains(name)) continue;
      if (device.emulated) report.emulated.insert(name);
      if (device.computes.For(training.precision) != training.precision)
        report.computes_f32_instead.insert(name);
    }
  }
  report.profiles.clear();
  report.basis = PredictionBasis::kMeasuredLayers;
  const auto add = [&](const DeviceProfile& profile, const std::vector<TimesUse>& times_used) {
    report.profiles.push_back(UseOf(profile, times_used));
    if (used_kinds.contains(profile.device_kind)) report.basis = std::max(report.basis, profile.basis);
  };
  const std::vector<TimesUse> used_of_whole = TimesUsed(training, cluster);
  for (const auto& [kind, profile] : NewestProfiles(ShapeKey(training), cluster)) {
    if (kinds.contains(kind)) add(*profile, used_of_whole);
  }
  for (const auto& [kind, share] : shared) {
    const TrainingSpec of_share = WithShare(training, share);
    const auto profiles = NewestProfiles(ShapeKey(of_share), cluster);
    const auto profile = profiles.find(kind);
    if (profile == profiles.end()) continue;
    add(*profile->second, TimesUsed(of_share, cluster));
    report.profiles.back().share = Describe(share, model);
  }
}

}  // namespace medley
