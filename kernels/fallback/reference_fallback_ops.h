#pragma once
#include "kernels/host/host_queue.h"
#include "kernels/reference/reference_ops.h"
#include "runtime/device/op_slices.h"
#include "runtime/device/uniform_ops.h"

namespace medley {

// Every op on a device whose memory the host cannot address: copies what the op reads to the host, runs the
// reference op there, and copies back what it wrote. The last candidate of such a backend, so that a new one
// is complete before it has kernels: right, and as slow as two copies and the plainest loops.
//
// An op has completed when it returns, with all that was submitted before it. Besides the contract, an op
// returns the queue's error, or ResourceExhausted: the host has no memory for the copies.
class ReferenceFallbackOps final : public UniformOps<ReferenceFallbackOps> {
 public:
  // `queue`, on which everything else of the device is submitted, outlives the ops.
  explicit ReferenceFallbackOps(DeviceQueue& queue);

  template <typename Args>
  absl::Status Submit(const Args& args);

  void ParametersChanged() override { reference_.ParametersChanged(); }
  // Nothing: the copies are in host memory, and gone when an op returns.

 private:
  DeviceQueue& queue_;
  HostQueue host_;
  ReferenceOps reference_;
};

}  // namespace medley
