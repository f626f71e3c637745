#pragma once
#include <map>
#include <memory>

#include "kernels/cuda/cublaslt_library.h"
#include "kernels/cuda/cuda_queue.h"
#include "kernels/cuda/matmul_plan.h"
#include "kernels/cuda/rounded_operands.h"
#include "kernels/portable/portable_ops.h"
#include "runtime/device/uniform_ops.h"

namespace medley {

// Matmul by cuBLASLt. Precision::kBf16 (kF16) rounds f32 operands to bf16 (f16) first, takes those that are it as
// they are and stores c as its slice says (with a bias that is rounded alike); Precision::kF32 is true f32 unless
// F32Matmul::kTf32 allows the tensor cores' 10 bits of fraction. What its epilogues lack is done in a pass of
// its own.
//
// Declines, with the reason: k of 0; a product that the library has no kernel for (operands aligned to less
// than it needs); everything, where the library is not on this machine. The same device gives the same bits
// from run to run.
class CublasLtOps final : public DecliningOps, public StridedMatmul {
 public:
  enum class F32Matmul : uint8_t { kExact, kTf32 };

  // All outlive the ops; `whole` is the device's ops of which these are a part.
  CublasLtOps(CudaQueue& queue, KernelLauncher& launcher, Ops& whole, F32Matmul f32);
  ~CublasLtOps() override;

  absl::Status Matmul(const MatmulArgs& args) override;
  // Besides: Unimplemented for an f32 a that would have to be rounded and is not without gaps.
  absl::Status MatmulOfRows(const MatmulArgs& args, int64_t a_stride, int64_t c_stride) override;
  void ParametersChanged() override { rounded_.ParametersChanged(); }
  void ForgetParameters() override { rounded_.ForgetParameters(); }
  OpHoldings held() const override;

 private:
  class Plan;
  // Where a product's operands are, in the type that is multiplied.
  struct Operands {
    CUdeviceptr a = 0, b = 0, c = 0, bias = 0, pre_activation = 0;
    int64_t a_stride = 0, b_stride = 0,
            c_stride = 0;  // from a row of what is stored to the next, in elements
  };
  // `x` of rows of `columns` in `dtype`, as RoundedOperands::Copy. Where it must be copied, its rows are set
  // apart so that each begins where the fast kernels can load it; `stride` then says how far.
  absl::StatusOr<Slice> RoundRows(const Slice& x, Dtype dtype, int64_t elements, int64_t columns,
                                  size_t scratch, int64_t& stride);
  MatmulArithmetic ArithmeticOf(const MatmulArgs& args) const;
  absl::StatusOr<Operands> Prepare(const MatmulArgs& args, int64_t a_stride, int64_t c_stride);
  // The plan of such products, or null if the library has none.
  absl::StatusOr<const Plan*> Find(const MatmulArgs& args, const Operands& operands);
  absl::StatusOr<std::unique_ptr<Plan>> Make(const MatmulArgs& args, const MatmulKey& key,
                                             const Operands& operands);
  absl::Status Run(const MatmulArgs& args, const Plan& plan, const Operands& operands);
  absl::Status EnsureReady();

  CudaQueue& queue_;
  KernelLauncher& launcher_;
  const F32Matmul f32_;
  const absl::StatusOr<const CublasLtLibrary*> library_;
  RoundedOperands rounded_;
  cublasLtHandle_t handle_ = nullptr;
  std::unique_ptr<Buffer> workspace_;
  std::map<MatmulKey, std::unique_ptr<Plan>> plans_;  // null: the library has no kernel
};

}  // namespace medley
