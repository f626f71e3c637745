#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/cuda_driver.h"
#include "runtime/base/bytes.h"

namespace medley {

// One GPU of this machine: what it is, and its primary context while this lives.
class CudaDevice {
 public:
  struct Properties {
    std::string name;  // as the driver has it: "NVIDIA H100 80GB HBM3"
    std::string uuid;  // of this very GPU, in hexadecimal digits
    Bytes memory;
    int compute_major = 0, compute_minor = 0;  // sm_90 is 9, 0
    int multiprocessors = 0;
  };

  // What GPU `ordinal` is; creates no context.
  // NotFound: there is no such GPU, with how many there are. Unavailable: as CudaDriver::Get(), or
  // there is none.
  static absl::StatusOr<Properties> Look(int ordinal);

  // Whether the kernels run on such a GPU. Unimplemented: why not.
  static absl::Status Check(const Properties& properties);

  // As Look() and Check(); besides, Unavailable: the context cannot be had, with the driver's words.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Open(int ordinal);
  // The same with a driver that the caller has, which outlives the device.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Open(const CudaDriver& driver, int ordinal);
  ~CudaDevice();
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const CudaDriver& driver() const { return driver_; }
  const Properties& properties() const { return properties_; }

  // Makes the context the calling thread's, which every driver call below needs.
  absl::Status MakeCurrent() const;

 private:
  CudaDevice(const CudaDriver& driver, CUdevice device, CUcontext context, Properties properties)
      : driver_(driver), device_(device), context_(context), properties_(std::move(properties)) {}

  const CudaDriver& driver_;
  const CUdevice device_;
  const CUcontext context_;
  const Properties properties_;
};

// How many GPUs the driver shows; 0 without a driver.
int CountCudaDevices();

}  // namespace medley
