#pragma once
#include "kernels/portable/launcher.h"
#include "runtime/device/device_queue.h"
#include "runtime/device/uniform_ops.h"

namespace medley {

// Products whose rows are further apart than they are long, in whose place a library has fast ones.
class StridedMatmul {
 public:
  virtual ~StridedMatmul() = default;
  // As Ops::Matmul; from a row of what is stored of a, and of c, to the next are so many elements, at least as many
  // as a row has.
  virtual absl::Status MatmulOfRows(const MatmulArgs& args, int64_t a_stride, int64_t c_stride) = 0;
};

// Every op by the kernels of kernels/portable/source, computed in f32 whatever the precision asked for: the complete
// set for any device that has a KernelLauncher, to stand behind its vendor's library.
//
// Besides the contract of Ops, ops decline with Unimplemented what the device lacks and what there is no kernel for:
//   Matmul, AttentionForward/Backward                          tensors narrower than f32;
//   others over activations                                    tensors of several types;
//   HeadLoss, HeadStatistics, JoinHeadStatistics, SquaredNorm  without f64;
//   AdamW                                                      without exact f32;
//   AttentionForward/Backward                                  head_size above 256.
class PortableOps final : public DecliningOps {
 public:
  struct Options {
    // The most that the head's ops have of logits at a time where no scratch is set aside for them.
    Bytes logits_limit = MiB(56);
    // With it the head of a job in 16 bits has the gradients of its logits in that type, where those were. Outlives
    // the ops.
    StridedMatmul* strided = nullptr;
  };

  // `launcher` submits to `queue`; `whole` is the device's ops of which these are a part (its Matmul does the
  // products of the head). All three outlive the ops.
  PortableOps(DeviceQueue& queue, KernelLauncher& launcher, Ops& whole, Options options)
      : queue_(queue), launcher_(launcher), whole_(whole), options_(options) {}
  PortableOps(DeviceQueue& queue, KernelLauncher& launcher, Ops& whole)
      : PortableOps(queue, launcher, whole, Options{}) {}

#define MEDLEY_OVERRIDE_OP(name) absl::Status name(const name##Args& args) override;
  MEDLEY_EACH_OP(MEDLEY_OVERRIDE_OP)
#undef MEDLEY_OVERRIDE_OP

  void UseScratch(const OpScratch& scratch) override { set_aside_ = scratch.logits; }
  OpHoldings held() const override { return {launcher_.scratch_size(), {}}; }

 private:
  DeviceQueue& queue_;
  KernelLauncher& launcher_;
  Ops& whole_;
  const Options options_;
  Slice set_aside_;  // for logits
};

}  // namespace medley
