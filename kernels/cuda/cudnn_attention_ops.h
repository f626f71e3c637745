#pragma once
#include <map>
#include <memory>

#include "kernels/cuda/attention_graph.h"
#include "kernels/cuda/cuda_queue.h"
#include "kernels/cuda/cudnn_library.h"
#include "kernels/cuda/rounded_operands.h"
#include "runtime/device/uniform_ops.h"

namespace medley {

// Attention in bf16 by cuDNN's fused kernels: operands are rounded to bf16, sums and the softmax are f32, the
// results of the two products of each direction are rounded to bf16 once more.
//
// Declines, with the reason: Precision::kF32; a head size that is no multiple of 8 or above 256; empty
// tensors; what cuDNN has no engine for on this device, with its words; everything, where cuDNN is not on
// this machine. The same device gives the same bits from run to run. The first call of a shape compiles a
// plan, which takes seconds.
class CudnnAttentionOps final : public DecliningOps {
 public:
  // `queue` and `whole` (the device's ops, for their Cast) outlive the ops.
  CudnnAttentionOps(CudaQueue& queue, Ops& whole);
  ~CudnnAttentionOps() override;

  absl::Status AttentionForward(const AttentionForwardArgs& args) override;
  absl::Status AttentionBackward(const AttentionBackwardArgs& args) override;
  OpHoldings held() const override;

 private:
  using Plans = std::map<AttentionShape, absl::StatusOr<CudnnPlan>>;
  using Compiler = absl::StatusOr<CudnnPlan> (*)(const CudnnLibrary&, const CudnnTarget&,
                                                 const AttentionShape&);
  absl::Status EnsureReady();
  absl::StatusOr<const CudnnPlan*> Find(Plans& plans, Compiler compile, const AttentionShape& shape);
  // What the plan needs, on the device; the last one is void.
  absl::StatusOr<void*> PlanWorkspace(Bytes size);
  absl::Status Run(const CudnnPlan& plan, absl::Span<const CudnnPlan::Binding> bindings);

  CudaQueue& queue_;
  const absl::StatusOr<const CudnnLibrary*> library_;
  RoundedOperands bf16_;
  cudnnHandle_t handle_ = nullptr;
  std::unique_ptr<Buffer> workspace_;
  Plans forward_, backward_;
};

}  // namespace medley
