#include "agent/discovery/discovery.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "kernels/cpu/cpu_variant.h"
#include "kernels/emulated/emulation_profile.h"
#include "kernels/host/processor_name.h"
#include "runtime/base/allowed_cores.h"
#include "runtime/base/available_memory.h"
#include "runtime/base/bytes.h"
#include "runtime/base/status_macros.h"
#include "runtime/wire/device_codec.h"

namespace medley {
namespace {

void SetComputes(const ComputedPrecisions& computes, v1::Device& device) {
  device.set_computes_bf16(computes.bf16);
  device.set_computes_f16(computes.f16);
}

// The value of the first line of `path` that begins with `key`, or "".
std::string LineAfter(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const size_t begin = line.find_first_not_of(" \t:", key.size());
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

// A device that computes in this host's own memory.
bool IsProcessor(const v1::Device& device) {
  return device.backend() == "cpu" || device.backend() == "reference";
}

absl::Status CheckHostHolds(const v1::Device& device, const std::string& field) {
  const Bytes total = TotalHostMemory();
  if (!IsProcessor(device) || total <= Bytes{} || device.memory_bytes() <= static_cast<uint64_t>(total.value))
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      field, ".memory_bytes: ", FormatBytes(DecodeBytes(device.memory_bytes())), " is more than the ",
      FormatBytes(total), " that this host has, or its control groups allow"));
}

// Whether a backend's objection stands until the configuration changes. Otherwise a driver may come, as after a start of the
// machine.
bool IsForGood(const absl::Status& objection) {
  return absl::IsInvalidArgument(objection) || absl::IsUnimplemented(objection);
}

// What profiles are kept under: all that a device's speed depends on, and nothing else.
std::string KindOf(const v1::Device& device) {
  return absl::StrFormat("%s%s%s x%d, %s", device.backend(), device.variant().empty() ? "" : "-",
                         device.variant(), std::max(1, device.cores_size()), ProcessorName());
}

// What an emulated device's profile says of it. A changed profile is another kind, so that nothing measured
// before is taken for it.
absl::Status CompleteEmulated(v1::Device& device, const std::string& field) {
  if (device.profile().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".profile: is empty; an emulated device needs a file"));
  }
  std::error_code error;
  const std::string file = std::filesystem::absolute(device.profile(), error);
  if (error)
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".profile: ", device.profile(), ": ", error.message()));
  device.set_profile(file);
  absl::StatusOr<EmulationProfile> profile = ReadEmulationProfile(device.profile());
  if (!profile.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(field, ".profile: ", profile.status().message()));
  }
  device.set_emulated(true);
  if (device.variant().empty()) device.set_variant(profile->kind);
  if (!device.has_memory_bytes()) device.set_memory_bytes(static_cast<uint64_t>(profile->memory.value));
  device.set_kind(absl::StrCat("emulated ", profile->kind, " ", profile->digest));
  SetComputes(profile->computes(), device);
  return absl::OkStatus();
}

// What this machine says of a device that is part of it.
absl::Status CompleteReal(v1::Device& device, const Backend& backend, const std::string& field) {
  if (device.backend() == "cpu" && device.variant().empty()) device.set_variant(DefaultCpuVariant());
  const bool says_cores = !device.cores().empty();
  if (!says_cores) {
    std::vector<int> cores;
    if (const int error = GetAllowedCores(0, cores); error != 0) {
      return absl::InternalError(
          absl::StrCat(field, ".cores: not given, and the system does not say which this process may use: ",
                       std::strerror(error)));
    }
    for (const int core : cores) device.add_cores(core);
  }
  device.set_kind(KindOf(device));
  const std::optional<CpuVariant> variant = ParseCpuVariant(device.variant());
  const bool reference = device.backend() == "reference";
  const bool bf16 = device.backend() == "cpu" && variant.has_value() && MultipliesBf16(*variant);
  SetComputes({.bf16 = reference || bf16, .f16 = reference}, device);
  if (backend.nature == nullptr) return absl::OkStatus();
  const DeviceNature nature = backend.nature(DecodeDevice(device));
  if (nature.kind.empty()) return absl::OkStatus();  // the backend will object
  if (!nature.on_cores) {
    // Otherwise it would be taken to share them with the processor's devices, and both to slow each other down.
    if (says_cores) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ".cores: must not be given, for ", nature.kind, " has cores of its own"));
    }
    device.clear_cores();
  }
  device.set_kind(nature.kind);
  SetComputes(nature.computes, device);
  if (nature.total_memory > Bytes{} &&
      device.memory_bytes() > static_cast<uint64_t>(nature.total_memory.value)) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".memory_bytes: ", FormatBytes(DecodeBytes(device.memory_bytes())),
                     " is more than the ", FormatBytes(nature.total_memory), " that ", nature.kind, " has"));
  }
  if (!device.has_memory_bytes()) device.set_memory_bytes(static_cast<uint64_t>(nature.memory.value));
  const auto largest_buffer = static_cast<uint64_t>(nature.largest_buffer.value);
  if (largest_buffer < device.memory_bytes()) device.set_largest_buffer_bytes(largest_buffer);
  return absl::OkStatus();
}

}  // namespace

std::string MachineIdentity() { return LineAfter("/proc/sys/kernel/random/boot_id", ""); }

Bytes CoarselyRounded(Bytes available) {
  if (available <= Bytes{0}) return Bytes{0};
  const uint64_t bytes = static_cast<uint64_t>(available.value),
                 step = std::max<uint64_t>(1, std::bit_floor(bytes) / 32);
  return Bytes{static_cast<int64_t>(bytes / step * step)};
}

Bytes OfferedHostMemory() { return CoarselyRounded(AvailableHostMemory()); }

std::vector<v1::Device> DiscoverDevices() {
  v1::Device device;
  device.set_name("cpu0");
  device.set_backend("cpu");
  device.set_memory_bytes(std::max<int64_t>(MiB(64).value, OfferedHostMemory().value * 8 / 10));
  return {device};
}

std::vector<v1::Device> DiscoverDevices(const std::vector<Backend>& backends) {
  std::vector<v1::Device> devices = DiscoverDevices();
  for (const Backend& backend : backends) {
    if (backend.find == nullptr) continue;
    for (const DeviceDescription& found : backend.find()) devices.push_back(EncodeDevice(found));
  }
  return devices;
}

absl::StatusOr<std::vector<v1::Device>> CompleteDevices(std::vector<v1::Device> devices,
                                                        const std::vector<Backend>& backends) {
  std::set<std::string> names;
  for (v1::Device& device : devices) {
    const std::string field = absl::StrCat("devices[", names.size(), "] (", device.name(), ")");
    if (!names.insert(device.name()).second) {
      return absl::InvalidArgumentError(absl::StrCat(field, ".name: given twice"));
    }
    const auto backend = std::find_if(backends.begin(), backends.end(),
                                      [&](const Backend& b) { return b.name == device.backend(); });
    if (backend == backends.end()) {
      const std::string known =
          absl::StrJoin(backends, ", ", [](std::string* out, const Backend& b) { out->append(b.name); });
      return absl::InvalidArgumentError(
          absl::StrCat(field, ".backend: \"", device.backend(), "\" is none of: ", known));
    }
    device.set_emulated(false);
    device.clear_largest_buffer_bytes();
    const bool emulated = device.backend() == "emulated";
    if (!device.profile().empty() && !emulated) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ".profile: is for devices of the backend emulated"));
    }
    if (emulated) {
      RETURN_IF_ERROR(CompleteEmulated(device, field));
    } else {
      RETURN_IF_ERROR(CompleteReal(device, *backend, field));
    }
    const absl::Status objection = backend->objection(DecodeDevice(device));
    const std::string why = absl::StrCat(field, ": ", objection.message());
    if (!objection.ok() && !IsForGood(objection)) return absl::FailedPreconditionError(why);
    if (!device.has_memory_bytes() && objection.ok())
      return absl::InvalidArgumentError(absl::StrCat(field, ".memory_bytes: is not given; at least 1MiB"));
    RETURN_IF_ERROR(CheckHostHolds(device, field));
    if (!objection.ok()) return absl::InvalidArgumentError(why);
  }
  return devices;
}

}  // namespace medley
