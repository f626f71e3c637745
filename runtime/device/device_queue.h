#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/base/bytes.h"

namespace medley {

class CopyLane;
class GroupLibrary;
class QueueTimer;

// In whose way a device addresses its memory, as a network that reads and writes it by itself has to know.
enum class AddressKind : uint8_t { kNone, kCuda, kRocm };

// Where memory lies on its device. kNone: no network could use an address, if there is one.
struct DeviceAddress {
  AddressKind kind = AddressKind::kNone;
  std::byte* address = nullptr;
};

// Memory of one device. Owned by who allocated it; freed on destruction, after the queue
// operations that use it have completed. Must not outlive its queue.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual Bytes size() const = 0;
  // Where the host can read and write it, or null if it cannot. Contents are defined once
  // a fence recorded after the last submitted use has been waited for.
  virtual std::byte* host_address() = 0;
  // Not for the host to read or write, but for a network that reaches the device. Contents as for
  // host_address().
  virtual DeviceAddress device_address() { return {}; }
};

// A point on a queue's timeline: "everything submitted up to here is done".
struct Fence {
  uint64_t value = 0;
};

// One accelerator, seen as an in-order queue over its own memory.
//
// Submissions may return before they are done; completion is observed through fences.
// Threading: one submitting thread at a time; Wait() and the counters from any thread.
// A failed submission poisons the queue: every later Wait() returns the same error.
class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;

  // For logs and people, such as "cpu-avx512 (1 core)".
  virtual std::string name() const = 0;

  // `size` bytes, zeroed, aligned to 64.
  // ResourceExhausted: the device's limit would be passed; the message has limit, use and request.
  virtual absl::StatusOr<std::unique_ptr<Buffer>> Allocate(Bytes size) = 0;

  // Copies `from` (host; may be freed on return) into `to` at byte `offset`.
  // OutOfRange: it would pass the end of `to`; nothing is copied.
  virtual absl::Status Upload(absl::Span<const std::byte> from, Buffer& to, Bytes offset) = 0;

  // Copies `from` at byte `offset` into `to` (host; alive until a fence recorded later is reached).
  // OutOfRange as for Upload.
  virtual absl::Status Download(Buffer& from, Bytes offset, absl::Span<std::byte> to) = 0;

  virtual Fence Record() = 0;

  // Blocks until `fence` is reached. Returns the queue's first error, if any.
  virtual absl::Status Wait(Fence fence) = 0;

  // A line of copies beside this queue (copy_lane.h). Any thread. ResourceExhausted or Internal: the driver's
  // words.
  virtual absl::StatusOr<std::unique_ptr<CopyLane>> OpenCopyLane() = 0;

  // What is submitted here from now on begins when `lane`, which this queue opened, has reached `fence`. Does
  // not block; of the submitting thread. Returns the lane's or the queue's error, if there is one.
  virtual absl::Status AwaitLane(CopyLane& lane, Fence fence) = 0;

  // `marks` marks to read times by (queue_timer.h). Any thread. ResourceExhausted or Internal: the driver's
  // words.
  virtual absl::StatusOr<std::unique_ptr<QueueTimer>> OpenTimer(int marks) = 0;

  // What sums memory of this device and others of its kind (device_group.h); the queue's. An error: there is
  // none, and why.
  virtual absl::StatusOr<GroupLibrary*> groups() {
    return absl::UnimplementedError("no library sums memory of such devices");
  }

  // Bytes of live Buffers, the most there ever were, and how many there may be.
  virtual Bytes allocated() const = 0;
  virtual Bytes peak_allocated() const = 0;
  virtual Bytes limit() const = 0;
};

}  // namespace medley
