#pragma once
#include <memory>
#include <utility>

#include "runtime/device/device_queue.h"
#include "runtime/device/op_slices.h"
#include "runtime/device/uniform_ops.h"

namespace medley {

// Ops over tensors of any activation type, made of ops that decline some: what the inner ops do not take is
// widened into scratch, computed with in f32, and rounded where it was to be stored. Calls that they take
// cost nothing. Scratch grows to the largest call's, which the memory model knows (ConversionBytes). So a
// device is right with every type as soon as it can Cast, and kernels that read and write narrow tensors
// themselves only make it faster.
class ConvertingOps final : public UniformOps<ConvertingOps> {
 public:
  // `queue` is the inner ops' and outlives them.
  ConvertingOps(DeviceQueue& queue, std::unique_ptr<Ops> inner) : queue_(queue), inner_(std::move(inner)) {}

  // As the inner op, and ResourceExhausted if there is no memory for scratch.
  template <typename Args>
  absl::Status Submit(const Args& args);

  void ParametersChanged() override { inner_->ParametersChanged(); }
  Bytes workspace() const override;

 private:
  absl::Status EnsureScratch(Bytes size);

  DeviceQueue& queue_;
  const std::unique_ptr<Ops> inner_;
  std::unique_ptr<Buffer> scratch_;
};

}  // namespace medley
