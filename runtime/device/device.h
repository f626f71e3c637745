#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/base/bytes.h"
#include "runtime/base/dtype.h"
#include "runtime/device/device_description.h"
#include "runtime/device/device_queue.h"
#include "runtime/device/ops.h"

namespace medley {

class CandidateOps;

// What a device is made of, for those who read its measurements later. Each text names a version where there
// is one; empty: not known.
struct DeviceProvenance {
  std::string hardware;                // "Intel(R) Xeon(R) Processor @ 2.50GHz"
  std::string driver;                  // "CUDA driver 12.4"
  std::vector<std::string> libraries;  // "oneDNN 2.6.3"
};

// An open device: its queue and its ops. Destroy buffers first.
struct Device {
  std::unique_ptr<DeviceQueue> queue;
  std::unique_ptr<Ops> ops;
  ComputedPrecisions computes;  // of products, by instructions for them; other jobs run in f32 on it

  // What `ops` chooses its kernels from, for reports; owned by it. Null: there is no choice.
  CandidateOps* candidates = nullptr;

  DeviceProvenance provenance;

  bool emulated = false;  // computes nothing: what lies in its memory means nothing
};

// What a device is, as seen without opening it.
struct DeviceNature {
  std::string kind;             // all that its speed depends on, and nothing else: profiles are kept under it
  ComputedPrecisions computes;  // as in Device
  Bytes memory;                 // how much of it an agent offers where nothing is said
  bool on_cores = false;        // whether it computes on cores of this machine's, and not on some of its own
  Bytes largest_buffer;         // that its driver allocates; 0: as large as there is memory
  Bytes total_memory;           // that it has; 0: not known
};

// One backend, as the composition root lists it.
struct Backend {
  std::string name;  // as in DeviceDescription::backend

  // Opens a device in this process. The CPU backends bind the process to the device's cores and
  // limit the instruction set for good: one device a process.
  // Unavailable, NotFound: not on this machine now, with the reason; it may come, as a driver does. Unimplemented: what
  // is there is not what the kernels need. InvalidArgument: unknown variant or core.
  std::function<absl::StatusOr<Device>(const DeviceDescription&)> open;

  // OK if `description` could be opened on this machine, otherwise the error of `open`. Changes nothing.
  std::function<absl::Status(const DeviceDescription&)> objection;

  // Backends that look for their devices themselves have these two; they are null for others. Without such
  // hardware the list is empty, and a nature has an empty kind.
  std::function<std::vector<DeviceDescription>()> find = nullptr;
  std::function<DeviceNature(const DeviceDescription&)> nature = nullptr;
};

}  // namespace medley
