#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/opencl/opencl_library.h"
#include "runtime/base/bytes.h"

namespace medley {

enum class OpenClKind : uint8_t { kCpu, kGpu, kOther };

// One device of one platform, with what the backend wants to know of it.
struct OpenClDevice {
  cl_platform_id platform = nullptr;
  cl_device_id id = nullptr;
  int platform_index = 0, device_index = 0;  // in the order in which the library lists them
  std::string name, platform_name, driver_version, device_version;
  OpenClKind kind = OpenClKind::kOther;
  uint32_t vendor_id = 0;  // of the PCI list
  Bytes memory, largest_buffer, group_memory;
  int64_t largest_group = 0;  // work-items
  // PoCL keeps compiled kernels itself, and takes minutes to put all of them into one binary.
  bool driver_keeps_programs = false;
  bool has_f64 = false;
  bool has_exact_f32 = false;  // each operation rounds to nearest, subnormals are kept

  // "pthread-skylake (Portable Computing Language 3.1)".
  std::string title() const;
};

// All devices of all platforms, in the library's order; none if there is no platform.
std::vector<OpenClDevice> ListOpenClDevices(const OpenClLibrary& opencl);

// The device that `variant` names: the first if it is empty, otherwise "PLATFORM:DEVICE", two indexes, or a
// part of the device's name, upper and lower case alike; of several that match, the first. Points into
// `devices`. Pure. The message of an error lists those that exist. NotFound: there is none at that position; a driver may
// come that shows one. InvalidArgument: no name has this part, which is misspelt more often than its driver is late.
absl::StatusOr<const OpenClDevice*> ChooseOpenClDevice(absl::Span<const OpenClDevice> devices,
                                                       const std::string& variant);

// Whether the kernels run on `device`. Unimplemented: what it lacks. Pure.
absl::Status CheckOpenClDevice(const OpenClDevice& device);

}  // namespace medley
