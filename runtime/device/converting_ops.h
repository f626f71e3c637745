#pragma once
#include <cstdint>
#include <limits>
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
// themselves only make it faster. A product with an epilogue is tried without it, then the epilogue as an op.
class ConvertingOps final : public UniformOps<ConvertingOps> {
 public:
  // `queue` is the inner ops' and outlives them. Ops that fall into parts (rows, sequences) are computed part
  // by part, each with about `part` of scratch, so that on a processor it stays in the cache.
  ConvertingOps(DeviceQueue& queue, std::unique_ptr<Ops> inner, Bytes part = kWhole)
      : queue_(queue), inner_(std::move(inner)), part_(part) {}

  // As the inner op, and ResourceExhausted if there is no memory for scratch.
  template <typename Args>
  absl::Status Submit(const Args& args);

  void ParametersChanged() override { inner_->ParametersChanged(); }
  // Without that scratch, which the memory model counts by itself.
  Bytes workspace() const override { return inner_->workspace(); }

 private:
  static constexpr Bytes kWhole{std::numeric_limits<int64_t>::max()};

  // `args`, of which the inner ops decline some tensors.
  template <typename Args>
  absl::Status Convert(const Args& args);
  absl::Status SubmitEpilogue(const MatmulArgs& args);
  absl::Status EnsureScratch(Bytes size);

  DeviceQueue& queue_;
  const std::unique_ptr<Ops> inner_;
  const Bytes part_;
  std::unique_ptr<Buffer> scratch_;
};

}  // namespace medley
