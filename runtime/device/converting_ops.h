#pragma once
#include <cstdint>
#include <memory>
#include <utility>

#include "runtime/base/op_scratch.h"
#include "runtime/device/device_queue.h"
#include "runtime/device/op_slices.h"
#include "runtime/device/uniform_ops.h"

namespace medley {

// Ops over tensors of any activation type, made of ops that decline some: what the inner ops do not take is
// widened into scratch, computed with in f32, and rounded where it was to be stored. Calls that they take
// cost nothing. Ops that fall into parts (rows, depths, sequences) are computed part by part, so that scratch
// is bounded: what a program has set aside (ConversionBytes) is enough, and used; without it, scratch grows to
// the largest part. So a device is right with every type as soon as it can Cast, and kernels that read and
// write narrow tensors themselves only make it faster. A product with an epilogue is tried without it, then the
// epilogue as an op.
class ConvertingOps final : public UniformOps<ConvertingOps> {
 public:
  // `queue` is the inner ops' and outlives them. A part takes at most `part` of scratch, unless it cannot be
  // cut further: on a processor it stays in the cache.
  ConvertingOps(DeviceQueue& queue, std::unique_ptr<Ops> inner, Bytes part = kConversionPart)
      : queue_(queue), inner_(std::move(inner)), part_(part) {}

  // As the inner op, and ResourceExhausted if there is no memory for scratch.
  template <typename Args>
  absl::Status Submit(const Args& args);

  void ParametersChanged() override { inner_->ParametersChanged(); }
  void ForgetParameters() override { inner_->ForgetParameters(); }
  void UseScratch(const OpScratch& scratch) override;
  OpHoldings held() const override;

 private:
  // `args`, of which the inner ops decline some tensors: part by part, and a part.
  template <typename Args>
  absl::Status ConvertInParts(const Args& args);
  template <typename Args>
  absl::Status Convert(const Args& args);
  absl::Status SubmitEpilogue(const MatmulArgs& args);
  // At least `size`.
  absl::StatusOr<Slice> ScratchOf(Bytes size);

  DeviceQueue& queue_;
  const std::unique_ptr<Ops> inner_;
  const Bytes part_;
  Slice set_aside_;
  std::unique_ptr<Buffer> scratch_;
};

}  // namespace medley
