#include "kernels/cpu/cpu_ops.h"

#include <omp.h>

#include <new>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/accept.h"
#include "kernels/cpu/subnormals.h"

namespace medley {

CpuOps::CpuOps(HostQueue& queue, const VectorKernels& kernels, std::vector<int> cores, Bf16Matmul bf16)
    : queue_(queue),
      kernels_(kernels),
      cores_(std::move(cores)),
      threads_(static_cast<int>(cores_.size())),
      scratch_(queue),
      gemm_(queue, kernels, bf16) {}

absl::Status CpuOps::Ready() {
  RETURN_IF_ERROR(queue_.error());
  // OpenMP keeps its number of threads for each submitting thread. That threads are where they should be was
  // seen to by the opening: threads started later inherit it.
  if (omp_get_max_threads() != threads_) omp_set_num_threads(threads_);
  return absl::OkStatus();
}

absl::Status CpuOps::Run(const char* op, const std::function<void()>& work) {
  try {
    const FlushSubnormals flush(threads_);
    work();
    return absl::OkStatus();
  } catch (const OutOfScratch& out) {
    // The device's limit, seen before the work is done: others may give way, and the call be made again.
    return Annotate(out.status(), absl::StrCat(op, ": scratch"));
  } catch (const std::bad_alloc&) {
    return queue_.Poison(absl::ResourceExhaustedError(absl::StrCat(op, ": the host has no memory left")));
  } catch (const std::exception& error) {
    return queue_.Poison(absl::InternalError(absl::StrCat(op, ": ", error.what())));
  }
}

// GELU is a pass over the result anyway, and takes the bias along. An epilogue takes f32 tensors alone.
absl::Status CpuOps::Matmul(const MatmulArgs& args) {
  const bool any_type = TakesBf16(args.precision, args.k) && args.epilogue == Epilogue::kNone;
  RETURN_IF_ERROR(any_type ? AcceptTyped(args) : Accept(args));
  return Run("Matmul", [&] {
    const bool gelu = args.epilogue == Epilogue::kGelu;
    const float* bias = HostPointer<float>(args.bias);
    gemm_.Multiply({.m = args.m,
                    .n = args.n,
                    .k = args.k,
                    .a = TypedMatrixOf(args.a, args.transpose_a),
                    .b = TypedMatrixOf(args.b, args.transpose_b),
                    .c = TypedMatrixOf(gelu ? args.pre_activation : args.c),
                    .bias = gelu ? nullptr : bias,
                    .store = args.store},
                   args.precision, args.b_constness);
    if (args.epilogue != Epilogue::kNone) ApplyEpilogue(args, bias);
  });
}

void CpuOps::ApplyEpilogue(const MatmulArgs& args, const float* bias) {
  float* pre_activation = HostPointer<float>(args.pre_activation);
  float* c = HostPointer<float>(args.c);
#pragma omp parallel for schedule(static) if (args.m * args.n > kChunkElements)
  for (int64_t i = 0; i < args.m; ++i) {
    float* before = pre_activation + i * args.n;
    float* row = c + i * args.n;
    if (args.epilogue == Epilogue::kGeluGradient) {
      kernels_.gelu_backward(before, row, row, args.n);
    } else if (bias != nullptr) {
      kernels_.add_then_gelu(before, bias, row, args.n);
    } else {
      kernels_.gelu_forward(before, row, args.n);
    }
  }
}

}  // namespace medley
