#include "kernels/cuda/cuda_device.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// The oldest GPUs that the kernels are compiled for, and the first that multiply bf16.
constexpr int kOldestComputeMajor = 8;

absl::Status Unavailable(const absl::Status& status) {
  return status.ok() ? status : absl::UnavailableError(std::string(status.message()));
}

absl::StatusOr<CUdevice> Find(const CudaDriver& driver, int ordinal) {
  int count = 0;
  RETURN_IF_ERROR(Unavailable(driver.ToStatus(driver.cuDeviceGetCount(&count), "counting the GPUs")));
  if (count == 0) return absl::UnavailableError("the NVIDIA driver shows no GPU");
  if (ordinal < 0 || ordinal >= count) {
    return absl::NotFoundError(
        absl::StrCat("there is no GPU ", ordinal, "; the driver shows ", count, ", counted from 0"));
  }
  CUdevice device = 0;
  RETURN_IF_ERROR(Unavailable(driver.ToStatus(driver.cuDeviceGet(&device, ordinal), "cuDeviceGet")));
  return device;
}

absl::StatusOr<CudaDevice::Properties> PropertiesOf(const CudaDriver& driver, CUdevice device) {
  CudaDevice::Properties properties;
  char name[256] = "";
  RETURN_IF_ERROR(driver.ToStatus(driver.cuDeviceGetName(name, sizeof(name), device), "cuDeviceGetName"));
  properties.name = name;
  CUuuid uuid;
  RETURN_IF_ERROR(driver.ToStatus(driver.cuDeviceGetUuid(&uuid, device), "cuDeviceGetUuid"));
  properties.uuid = absl::BytesToHexString(absl::string_view(uuid.bytes, sizeof(uuid.bytes)));
  size_t memory_bytes = 0;
  RETURN_IF_ERROR(driver.ToStatus(driver.cuDeviceTotalMem(&memory_bytes, device), "cuDeviceTotalMem"));
  properties.memory = {static_cast<int64_t>(memory_bytes)};
  const auto attribute = [&](CUdevice_attribute which, int& value) {
    return driver.ToStatus(driver.cuDeviceGetAttribute(&value, which, device), "cuDeviceGetAttribute");
  };
  RETURN_IF_ERROR(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, properties.compute_major));
  RETURN_IF_ERROR(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, properties.compute_minor));
  RETURN_IF_ERROR(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, properties.multiprocessors));
  return properties;
}

}  // namespace

absl::StatusOr<CudaDevice::Properties> CudaDevice::Look(int ordinal) {
  ASSIGN_OR_RETURN(const CudaDriver* driver, CudaDriver::Get());
  ASSIGN_OR_RETURN(const CUdevice device, Find(*driver, ordinal));
  return PropertiesOf(*driver, device);
}

absl::Status CudaDevice::Check(const Properties& properties) {
  if (properties.compute_major >= kOldestComputeMajor) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(properties.name, " is sm_", properties.compute_major,
                                               properties.compute_minor,
                                               "; the kernels need sm_80 or newer"));
}

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Open(int ordinal) {
  ASSIGN_OR_RETURN(const CudaDriver* driver, CudaDriver::Get());
  return Open(*driver, ordinal);
}

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Open(const CudaDriver& driver, int ordinal) {
  ASSIGN_OR_RETURN(const CUdevice device, Find(driver, ordinal));
  ASSIGN_OR_RETURN(Properties properties, PropertiesOf(driver, device));
  RETURN_IF_ERROR(Check(properties));
  CUcontext context = nullptr;
  RETURN_IF_ERROR(Unavailable(driver.ToStatus(driver.cuDevicePrimaryCtxRetain(&context, device),
                                              absl::StrCat("opening GPU ", ordinal))));
  return std::unique_ptr<CudaDevice>(new CudaDevice(driver, device, context, std::move(properties)));
}

CudaDevice::~CudaDevice() { driver_.cuDevicePrimaryCtxRelease(device_); }

absl::Status CudaDevice::MakeCurrent() const {
  return driver_.ToStatus(driver_.cuCtxSetCurrent(context_), "cuCtxSetCurrent");
}

int CountCudaDevices() {
  const auto driver = CudaDriver::Get();
  int count = 0;
  if (!driver.ok() || (*driver)->cuDeviceGetCount(&count) != CUDA_SUCCESS) return 0;
  return count;
}

}  // namespace medley
