#include <algorithm>

#include "kernels/arguments/op_arguments.h"
#include "kernels/portable/launch_shapes.h"
#include "kernels/portable/portable_ops.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// How many rows' logits fit into `limit`: one or more, and whole tiles if there is room for some.
int64_t ChunkRows(const HeadLossArgs& args, Bytes limit) {
  const int64_t fit = std::max<int64_t>(1, limit.value / (4 * args.vocabulary));
  return std::min(args.rows, fit < kTile ? fit : fit / kTile * kTile);
}

// Chunk [first, first + rows) of the gradients, once `logits` holds the loss's gradient.
absl::Status AddGradients(Ops& ops, const HeadLossArgs& args, const Slice& logits, int64_t first,
                          int64_t rows) {
  RETURN_IF_ERROR(ops.Matmul({.a = logits,
                              .b = args.weight,
                              .c = args.dx.Sub(first * args.columns, rows * args.columns),
                              .m = rows,
                              .n = args.columns,
                              .k = args.vocabulary,
                              .precision = args.precision,
                              .b_constness = Constness::kParameter}));
  return ops.Matmul({.a = logits,
                     .b = args.x.Sub(first * args.columns, rows * args.columns),
                     .c = args.dweight,
                     .m = args.vocabulary,
                     .n = args.columns,
                     .k = rows,
                     .transpose_a = Transpose::kYes,
                     .store = Store::kAdd,
                     .precision = args.precision});
}

}  // namespace

absl::Status PortableOps::HeadLoss(const HeadLossArgs& args) {
  RETURN_IF_ERROR(CheckArguments(args));
  if (!launcher_.has_f64()) return absl::UnimplementedError("the device has no f64");
  if (args.rows == 0) return absl::OkStatus();
  const int64_t chunk_rows = ChunkRows(args, options_.logits_limit);
  const bool with_gradients = !args.dx.empty();
  ASSIGN_OR_RETURN(Slice losses, launcher_.Scratch(KernelLauncher::kPartials, {8 * args.rows}));
  losses.dtype = Dtype::kF64;
  ASSIGN_OR_RETURN(const Slice scratch,
                   launcher_.Scratch(KernelLauncher::kLogits, {4 * chunk_rows * args.vocabulary}));
  for (int64_t first = 0; first < args.rows; first += chunk_rows) {
    const int64_t rows = std::min(chunk_rows, args.rows - first);
    const Slice logits = scratch.Sub(0, rows * args.vocabulary);
    RETURN_IF_ERROR(whole_.Matmul({.a = args.x.Sub(first * args.columns, rows * args.columns),
                                   .b = args.weight,
                                   .c = logits,
                                   .m = rows,
                                   .n = args.vocabulary,
                                   .k = args.columns,
                                   .transpose_b = Transpose::kYes,
                                   .precision = args.precision,
                                   .b_constness = Constness::kParameter}));
    RETURN_IF_ERROR(launcher_.Launch("softmax_cross_entropy", {{rows, 1, 1}},
                                     {logits, args.targets.Sub(first, rows), losses.Sub(first, rows),
                                      args.vocabulary, args.gradient_scale, int32_t{with_gradients}}));
    if (with_gradients) RETURN_IF_ERROR(AddGradients(whole_, args, logits, first, rows));
  }
  return launcher_.Launch("sum_f64", {}, {losses, args.loss_sum, args.rows, int32_t{1}});
}

}  // namespace medley
