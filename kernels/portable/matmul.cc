#include "kernels/arguments/op_arguments.h"
#include "kernels/portable/launch_shapes.h"
#include "kernels/portable/matmul_epilogue.h"
#include "kernels/portable/portable_ops.h"
#include "runtime/base/status_macros.h"

namespace medley {

absl::Status FinishMatmul(KernelLauncher& launcher, const MatmulArgs& args) {
  if (args.bias.empty() && args.epilogue == Epilogue::kNone) return absl::OkStatus();
  // As EPILOGUE_... of activation.h.
  const int32_t epilogue = args.epilogue == Epilogue::kGelu           ? 1
                           : args.epilogue == Epilogue::kGeluGradient ? 2
                                                                      : 0;
  return launcher.Launch(
      "matmul_epilogue", OverRows(args.m, args.n),
      {args.c, args.bias, args.pre_activation, args.n, int32_t{!args.bias.empty()}, epilogue});
}

absl::Status PortableOps::Matmul(const MatmulArgs& args) {
  RETURN_IF_ERROR(CheckArguments(args));
  const bool a_is_turned = args.transpose_a == Transpose::kYes,
             b_is_turned = args.transpose_b == Transpose::kYes;
  const int64_t a_row_stride = a_is_turned ? 1 : args.k, a_depth_stride = a_is_turned ? args.m : 1;
  const int64_t b_column_stride = b_is_turned ? args.k : 1, b_depth_stride = b_is_turned ? 1 : args.n;
  RETURN_IF_ERROR(
      launcher_.Launch("matmul", {{CeilDivide(args.n, kTile), CeilDivide(args.m, kTile), 1}},
                       {args.a, args.b, args.c, args.m, args.n, args.k, a_row_stride, a_depth_stride,
                        b_column_stride, b_depth_stride, int32_t{args.store == Store::kAdd}}));
  return FinishMatmul(launcher_, args);
}

}  // namespace medley
