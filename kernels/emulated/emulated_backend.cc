#include "kernels/emulated/emulated_backend.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/emulated/emulated_ops.h"
#include "kernels/emulated/emulated_queue.h"
#include "kernels/emulated/emulation_profile.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// InvalidArgument: what an emulated device must not have, or lacks.
absl::StatusOr<EmulationProfile> ProfileOf(const DeviceDescription& description) {
  if (description.profile.empty())
    return absl::InvalidArgumentError("profile: is empty; an emulated device needs a file");
  if (!description.cores.empty()) return absl::InvalidArgumentError("cores: an emulated device has none");
  ASSIGN_OR_RETURN(EmulationProfile profile, ReadEmulationProfile(description.profile));
  if (!description.variant.empty() && description.variant != profile.kind) {
    return absl::InvalidArgumentError(absl::StrCat("variant: \"", description.variant,
                                                   "\" is not the profile's kind, \"", profile.kind,
                                                   "\"; leave it empty"));
  }
  if (description.memory_limit > profile.memory) {
    return absl::InvalidArgumentError(absl::StrCat("memory_bytes: ", FormatBytes(description.memory_limit),
                                                   " is more than the profile's ",
                                                   FormatBytes(profile.memory)));
  }
  return profile;
}

absl::Status Objection(const DeviceDescription& description) { return ProfileOf(description).status(); }

absl::StatusOr<Device> Open(const DeviceDescription& description) {
  ASSIGN_OR_RETURN(EmulationProfile profile, ProfileOf(description));
  auto queue = std::make_unique<EmulatedQueue>(
      EmulatedQueue::Options{.name = absl::StrCat("emulated ", profile.kind),
                             .limit = description.memory_limit,
                             .link_bytes_per_second = profile.host_link_bytes_per_second,
                             .copy_overhead_seconds = profile.op_overhead_seconds});
  Device device;
  device.computes = profile.computes();
  device.emulated = true;
  device.provenance.hardware = queue->name();
  device.provenance.libraries = {absl::StrCat("profile ", profile.digest)};
  device.ops = std::make_unique<EmulatedOps>(*queue, std::move(profile));
  device.queue = std::move(queue);
  return device;
}

}  // namespace

Backend EmulatedBackend() { return {.name = "emulated", .open = Open, .objection = Objection}; }

}  // namespace medley
