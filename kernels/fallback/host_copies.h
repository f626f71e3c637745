#pragma once
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "runtime/device/device_queue.h"
#include "runtime/device/op_slices.h"

namespace medley {

// Host copies of the slices of one op. Slices that overlap on the device overlap in the copies, so that an op
// in place is one there too; offsets keep their alignment.
class HostCopies {
 public:
  // Copies from and to `device`, into memory of `host`. Both outlive the copies.
  HostCopies(DeviceQueue& device, DeviceQueue& host) : device_(device), host_(host) {}

  // Waits for the device, copies what an op reads of `slices` (of arguments that were checked), and points
  // them at the copies. Once. Errors: of the two queues.
  absl::Status Take(const OpSlices& slices);

  // Copies what the op has written to where Take() found it. Errors: of the device's queue.
  absl::Status Return();

 private:
  struct Operand {
    Slice* slice;  // of the op's arguments
    Buffer* buffer;
    int64_t begin_bytes, end_bytes;  // in `buffer`, on the device
    Access access;
    size_t region = 0;
  };
  // Overlapping operands of one buffer.
  struct Region {
    Buffer* buffer;
    int64_t begin_bytes, end_bytes;
    bool is_read = false;
    int64_t base_bytes = 0;        // where in `buffer` the copy begins
    std::unique_ptr<Buffer> copy;  // on the host
  };
  void JoinIntoRegions();
  absl::Status Download();
  std::byte* CopyOf(const Region& region, int64_t device_offset_bytes) const;

  DeviceQueue& device_;
  DeviceQueue& host_;
  std::vector<Operand> operands_;
  std::vector<Region> regions_;
};

}  // namespace medley
