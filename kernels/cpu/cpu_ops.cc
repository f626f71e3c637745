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
      gemm_(kernels, bf16) {}

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
  } catch (const std::bad_alloc&) {
    return queue_.Poison(absl::ResourceExhaustedError(absl::StrCat(
        op, ": the host has no memory left for scratch; ", workspace().value, " B are held already")));
  } catch (const std::exception& error) {
    return queue_.Poison(absl::InternalError(absl::StrCat(op, ": ", error.what())));
  }
}

absl::Status CpuOps::Matmul(const MatmulArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  return Run("Matmul", [&] {
    float* pre_activation = HostPointer<float>(args.pre_activation);
    float* c = args.epilogue == Epilogue::kGelu ? pre_activation : HostPointer<float>(args.c);
    const float* bias = HostPointer<float>(args.bias);
    Product product{.m = args.m, .n = args.n, .k = args.k, .c = c, .c_stride = args.n, .store = args.store};
    product.a = {HostPointer<float>(args.a), args.transpose_a == Transpose::kYes ? args.m : args.k,
                 args.transpose_a};
    product.b = {HostPointer<float>(args.b), args.transpose_b == Transpose::kYes ? args.k : args.n,
                 args.transpose_b};
    if (bias != nullptr) {
      // The rows of c begin as the bias and the product is added: no pass over c after it.
      const bool add = args.store == Store::kAdd;
#pragma omp parallel for schedule(static) if (args.m * args.n > kChunkElements)
      for (int64_t i = 0; i < args.m; ++i) {
        float* row = c + i * args.n;
        if (add) {
          kernels_.add(row, bias, row, args.n);
        } else {
          std::copy_n(bias, args.n, row);
        }
      }
      product.store = Store::kAdd;
    }
    gemm_.Multiply(product, args.precision, args.b_constness);
    if (args.epilogue == Epilogue::kNone) return;
    float* out = HostPointer<float>(args.c);
    ForEachChunk(args.m * args.n, [&](int64_t first, int64_t count) {
      if (args.epilogue == Epilogue::kGelu) {
        kernels_.gelu_forward(pre_activation + first, out + first, count);
      } else {
        kernels_.gelu_backward(pre_activation + first, out + first, out + first, count);
      }
    });
  });
}

}  // namespace medley
