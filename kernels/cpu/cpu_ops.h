#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/vector_kernels.h"
#include "kernels/host/host_queue.h"
#include "runtime/device/ops.h"

namespace medley {

// The ops over `queue`'s buffers; see CpuBackend. One file an op family defines them.
class CpuOps final : public Ops {
 public:
  // `queue` and `kernels` outlive the ops. Computes with one thread on each of `cores`, which the process is
  // bound to.
  CpuOps(HostQueue& queue, const VectorKernels& kernels, std::vector<int> cores, Bf16Matmul bf16);

#define MEDLEY_DECLARE_OP(name) absl::Status name(const name##Args& args) override;
  MEDLEY_EACH_OP(MEDLEY_DECLARE_OP)
#undef MEDLEY_DECLARE_OP
  void ParametersChanged() override { gemm_.ParametersChanged(); }
  void ForgetParameters() override { gemm_.ForgetParameters(); }
  void UseScratch(const OpScratch& scratch) override { set_aside_ = scratch.logits; }
  OpHoldings held() const override { return {scratch_.size() + gemm_.scratch(), gemm_.copies()}; }

 private:
  // Checks the arguments and the queue, and readies the calling thread: its cores and its number of OpenMP
  // threads.
  template <typename Args>
  absl::Status Accept(const Args& args);
  // The same for kernels that take bf16 tensors, too.
  template <typename Args>
  absl::Status AcceptTyped(const Args& args);
  absl::Status Ready();

  // Runs `work` with subnormal numbers taken as zero. What it throws is returned, and poisons the queue but for
  // scratch that passes the device's limit, for want of which outputs are undefined.
  absl::Status Run(const char* op, const std::function<void()>& work);

  // Whether products over `k` of this precision take bf16 matrices.
  bool TakesBf16(Precision precision, int64_t k) const { return k > 0 && gemm_.MultipliesBf16(precision); }
  void ApplyEpilogue(const MatmulArgs& args, const float* bias);
  // Of any op of the head. Calls work(first, rows, logits) for chunks of rows, one after another, with their
  // logits, which it may change.
  template <typename Args, typename Work>
  void ForEachLogits(const Args& args, const Work& work);
  // dx of those rows, and dweight +=, of the logits' gradients.
  template <typename Args>
  void AddHeadGradients(const Args& args, int64_t first, int64_t rows, float* d_logits);

  HostQueue& queue_;
  const VectorKernels& kernels_;
  const std::vector<int> cores_;
  const int threads_;
  Slice set_aside_;  // for logits
  Scratch scratch_;
  Gemm gemm_;
};

}  // namespace medley
