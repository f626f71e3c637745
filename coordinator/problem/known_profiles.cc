#include "coordinator/problem/known_profiles.h"

#include "absl/strings/str_cat.h"
#include "runtime/ir/model/family.h"

namespace medley {

const DeviceProfile* FindProfile(const Cluster& cluster, const std::string& kind, const std::string& shape,
                                 int micro_batch, const ProfiledTimes** times) {
  const DeviceProfile* newest = nullptr;
  for (const DeviceProfile& profile : cluster.profiles) {
    if (profile.device_kind != kind || profile.shape != shape) continue;
    if (newest != nullptr && profile.measured_at_seconds < newest->measured_at_seconds) continue;
    for (const ProfiledTimes& candidate : profile.times) {
      if (micro_batch != 0 && candidate.micro_batch_sequences != micro_batch) continue;
      newest = &profile;
      if (times != nullptr) *times = &candidate;
    }
  }
  return newest;
}

const DeviceProfile* FindCopyProfile(const Cluster& cluster, const std::string& kind) {
  const DeviceProfile* newest = nullptr;
  for (const DeviceProfile& profile : cluster.profiles) {
    if (profile.device_kind != kind || profile.fetch_bytes_per_second == 0) continue;
    if (newest == nullptr || profile.measured_at_seconds >= newest->measured_at_seconds) newest = &profile;
  }
  return newest;
}

std::string ShapeKey(const TrainingSpec& spec) {
  const ModelConfig& model = spec.shape.model;
  const std::string heads =
      model.family == ModelFamily::kLlama
          ? absl::StrCat(model.heads, ":", model.key_value_head_count(), "x", model.size_of_head())
      // Of a share of the heads their size does not follow from the other numbers.
      : model.heads * model.size_of_head() == model.hidden
          ? absl::StrCat(model.heads)
          : absl::StrCat(model.heads, "x", model.size_of_head());
  return absl::StrCat(FamilyOf(model).name, " hidden=", model.hidden, " heads=", heads,
                      " ff=", model.feed_forward, " vocabulary=", model.vocabulary,
                      " sequence=", spec.shape.sequence, " precision=", std::string(NameOf(spec.precision)),
                      spec.precision == Precision::kBf16 ? " activations=bf16" : "");
}

TrainingSpec WithShare(TrainingSpec spec, const ModelShare& share) {
  spec.shape.model = LocalModel(spec.shape.model, share);
  return spec;
}

}  // namespace medley
