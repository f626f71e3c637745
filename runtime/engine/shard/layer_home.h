#pragma once
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/device/copy_lane.h"
#include "runtime/device/device_queue.h"

namespace medley {

// The host memory where layers live whose device has windows for a few of them, and the two lines of copies between
// them, one each way, which run beside the device's computing. Memory is page-locked where the driver has such a
// thing. A line of its own thread waits for its copies: what they wait for on the device it has waited for, too, so that
// their times can be told. Activations have such a home, too: what is said of parts and layers holds of chunks and of
// what their micro-batches keep, whatever its type.
//
// Must not outlive the queue. Fetch and Store may be called by a thread each; who else reads or writes values takes
// care that neither copies them.
class LayerHome {
 public:
  // Zeros. `elements`: of each of the parts, of each layer. `what` lives there, for people. ResourceExhausted: the
  // host has not so much memory available.
  static absl::StatusOr<std::unique_ptr<LayerHome>> Create(DeviceQueue& queue,
                                                           const std::vector<std::vector<int64_t>>& elements,
                                                           const char* what = "layers");
  ~LayerHome();

  absl::Span<float> Values(int part, int layer);
  Bytes size() const;  // of all

  // Copies values into device memory; blocks until they are there.
  absl::Status Fetch(absl::Span<const float> values, Buffer& to, Bytes offset);
  // Copies device memory into values; blocks until they are there.
  absl::Status Store(Buffer& from, Bytes offset, absl::Span<float> values);

 private:
  LayerHome() = default;
  std::unique_ptr<CopyLane> fetch_lane_, store_lane_;
  std::vector<std::unique_ptr<PinnedMemory>> memory_;   // by part
  std::vector<std::vector<absl::Span<float>>> values_;  // by part and layer
};

}  // namespace medley
