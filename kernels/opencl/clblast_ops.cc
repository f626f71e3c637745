#include "kernels/opencl/clblast_ops.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/arguments/op_arguments.h"
#include "kernels/portable/matmul_epilogue.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// CLBlast sums all products of an element one after another in f32. A longer sum would drift by more than its
// terms' rounding, so it is cut.
constexpr int64_t kLongestSum = 2048;

struct Operand {
  CLBlastTranspose transpose;
  int64_t stride;          // from one stored row to the next
  int64_t depth_elements;  // from one depth to the next
};

Operand OperandA(const MatmulArgs& args) {
  return args.transpose_a == Transpose::kYes ? Operand{CLBlastTransposeYes, args.m, args.m}
                                             : Operand{CLBlastTransposeNo, args.k, 1};
}
Operand OperandB(const MatmulArgs& args) {
  return args.transpose_b == Transpose::kYes ? Operand{CLBlastTransposeYes, args.k, 1}
                                             : Operand{CLBlastTransposeNo, args.n, args.n};
}

}  // namespace

absl::Status ClblastOps::Matmul(const MatmulArgs& args) {
  RETURN_IF_ERROR(CheckArguments(args));
  if (args.m == 0 || args.n == 0 || args.k == 0)
    return absl::UnimplementedError("CLBlast takes no size of zero");
  RETURN_IF_ERROR(queue_.error());
  for (int64_t first = 0; first < args.k; first += kLongestSum) RETURN_IF_ERROR(AddPart(args, first));
  return FinishMatmul(launcher_, args);
}

// c = or += the products of depths from `first` on, kLongestSum at most.
absl::Status ClblastOps::AddPart(const MatmulArgs& args, int64_t first) {
  const int64_t depth = std::min(kLongestSum, args.k - first);
  const Operand a = OperandA(args), b = OperandB(args);
  const float keep = first > 0 || args.store == Store::kAdd ? 1.0f : 0.0f;
  cl_command_queue queue = queue_.handle();
  const CLBlastStatusCode code = clblast_.CLBlastSgemm(
      CLBlastLayoutRowMajor, a.transpose, b.transpose, args.m, args.n, depth, 1.0f,
      OpenClQueue::MemoryOf(*args.a.buffer), args.a.offset_bytes / 4 + first * a.depth_elements, a.stride,
      OpenClQueue::MemoryOf(*args.b.buffer), args.b.offset_bytes / 4 + first * b.depth_elements, b.stride,
      keep, OpenClQueue::MemoryOf(*args.c.buffer), args.c.offset_bytes / 4, args.n, &queue, nullptr);
  if (code == CLBlastSuccess) return absl::OkStatus();
  return queue_.Poison(absl::InternalError(absl::StrCat(queue_.name(), ": CLBlast's sgemm of ", args.m, " x ",
                                                        args.n, " x ", depth, ": status ", code)));
}

}  // namespace medley
