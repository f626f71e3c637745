#include "kernels/opencl/opencl_device.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace medley {
namespace {

// What the kernels of kernels/portable/source ask for: groups of this many work-items, and the tiles of
// attention.
constexpr int64_t kGroupItems = 256;
constexpr Bytes kGroupMemory = KiB(31);

// A property that is a number, zero if the device does not know it.
template <typename T>
T Number(const OpenClLibrary& opencl, cl_device_id device, cl_device_info property) {
  T value{};
  opencl.clGetDeviceInfo(device, property, sizeof(value), &value, nullptr);
  return value;
}

// A property that is a text, by the function that gets it.
template <typename Get, typename Of>
std::string Text(Get get, Of of, cl_uint property) {
  size_t size = 0;
  if (get(of, property, 0, nullptr, &size) != CL_SUCCESS || size == 0) return "";
  std::string text(size, '\0');
  get(of, property, size, text.data(), nullptr);
  return std::string(absl::StripAsciiWhitespace(text.c_str()));
}

OpenClDevice Describe(const OpenClLibrary& opencl, cl_platform_id platform, cl_device_id id) {
  OpenClDevice device{.platform = platform, .id = id};
  device.name = Text(opencl.clGetDeviceInfo, id, CL_DEVICE_NAME);
  device.platform_name = Text(opencl.clGetPlatformInfo, platform, CL_PLATFORM_NAME);
  device.driver_version = Text(opencl.clGetDeviceInfo, id, CL_DRIVER_VERSION);
  device.device_version = Text(opencl.clGetDeviceInfo, id, CL_DEVICE_VERSION);
  const auto type = Number<cl_device_type>(opencl, id, CL_DEVICE_TYPE);
  device.kind = type & CL_DEVICE_TYPE_CPU   ? OpenClKind::kCpu
                : type & CL_DEVICE_TYPE_GPU ? OpenClKind::kGpu
                                            : OpenClKind::kOther;
  device.vendor_id = Number<cl_uint>(opencl, id, CL_DEVICE_VENDOR_ID);
  device.memory = {static_cast<int64_t>(Number<cl_ulong>(opencl, id, CL_DEVICE_GLOBAL_MEM_SIZE))};
  device.largest_buffer = {static_cast<int64_t>(Number<cl_ulong>(opencl, id, CL_DEVICE_MAX_MEM_ALLOC_SIZE))};
  device.group_memory = {static_cast<int64_t>(Number<cl_ulong>(opencl, id, CL_DEVICE_LOCAL_MEM_SIZE))};
  device.largest_group = static_cast<int64_t>(Number<size_t>(opencl, id, CL_DEVICE_MAX_WORK_GROUP_SIZE));
  device.driver_keeps_programs = device.platform_name == "Portable Computing Language";
  device.has_f64 = Number<cl_device_fp_config>(opencl, id, CL_DEVICE_DOUBLE_FP_CONFIG) != 0;
  constexpr cl_device_fp_config kExact =
      CL_FP_ROUND_TO_NEAREST | CL_FP_DENORM | CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
  device.has_exact_f32 =
      (Number<cl_device_fp_config>(opencl, id, CL_DEVICE_SINGLE_FP_CONFIG) & kExact) == kExact;
  return device;
}

std::string PositionOf(const OpenClDevice& device) {
  return absl::StrCat(device.platform_index, ":", device.device_index);
}

}  // namespace

std::string OpenClDevice::title() const {
  return absl::StrCat(name, " (", platform_name, " ", driver_version, ")");
}

std::vector<OpenClDevice> ListOpenClDevices(const OpenClLibrary& opencl) {
  std::vector<OpenClDevice> devices;
  cl_uint platform_count = 0;
  if (opencl.clGetPlatformIDs(0, nullptr, &platform_count) != CL_SUCCESS) return devices;
  std::vector<cl_platform_id> platforms(platform_count);
  opencl.clGetPlatformIDs(platform_count, platforms.data(), nullptr);
  for (cl_uint p = 0; p < platform_count; ++p) {
    cl_uint count = 0;
    if (opencl.clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS) continue;
    std::vector<cl_device_id> ids(count);
    opencl.clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, count, ids.data(), nullptr);
    for (cl_uint d = 0; d < count; ++d) {
      devices.push_back(Describe(opencl, platforms[p], ids[d]));
      devices.back().platform_index = static_cast<int>(p);
      devices.back().device_index = static_cast<int>(d);
    }
  }
  return devices;
}

absl::StatusOr<const OpenClDevice*> ChooseOpenClDevice(absl::Span<const OpenClDevice> devices,
                                                       const std::string& variant) {
  for (const OpenClDevice& device : devices) {
    if (variant.empty() || variant == PositionOf(device)) return &device;
  }
  const std::pair<std::string, std::string> halves = absl::StrSplit(variant, absl::MaxSplits(':', 1));
  int platform = 0, index = 0;
  const bool is_position =
      absl::SimpleAtoi(halves.first, &platform) && absl::SimpleAtoi(halves.second, &index);
  for (const OpenClDevice& device : devices) {
    if (!is_position &&
        absl::StrContains(absl::AsciiStrToLower(device.name), absl::AsciiStrToLower(variant))) {
      return &device;
    }
  }
  const std::string existing = absl::StrJoin(devices, ", ", [](std::string* out, const OpenClDevice& device) {
    absl::StrAppend(out, PositionOf(device), " ", device.title());
  });
  const std::string message = absl::StrCat("variant \"", variant, "\" is no OpenCL device; there ",
                                           devices.empty() ? "is none" : absl::StrCat("are: ", existing));
  return is_position && platform >= 0 && index >= 0 ? absl::NotFoundError(message)
                                                    : absl::InvalidArgumentError(message);
}

absl::Status CheckOpenClDevice(const OpenClDevice& device) {
  if (device.largest_group < kGroupItems) {
    return absl::UnimplementedError(absl::StrCat(device.title(), ": its work-groups have at most ",
                                                 device.largest_group, " work-items, the kernels need ",
                                                 kGroupItems));
  }
  if (device.group_memory < kGroupMemory) {
    return absl::UnimplementedError(absl::StrCat(device.title(), ": its work-groups share ",
                                                 FormatBytes(device.group_memory), ", the kernels need ",
                                                 FormatBytes(kGroupMemory)));
  }
  return absl::OkStatus();
}

}  // namespace medley
