#include <algorithm>
#include <string>
#include <utility>

#include "kernels/arguments/op_arguments.h"
#include "kernels/portable/launch_shapes.h"
#include "kernels/portable/portable_ops.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// What a head is computed with.
struct HeadMeans {
  Ops& ops;
  KernelLauncher& launcher;
  Slice set_aside;  // for logits; empty: the launcher's scratch is used
  Bytes logits_limit;
};

absl::Status NeedF64(const KernelLauncher& launcher) {
  return launcher.has_f64() ? absl::OkStatus() : absl::UnimplementedError("the device has no f64");
}

// How many rows' logits are made at a time where there is room for `fit`: whole tiles, if not all of them.
int64_t ChunkRows(int64_t rows, int64_t fit) {
  if (rows <= fit) return rows;
  return fit < kTile ? fit : fit / kTile * kTile;
}

// A product of a later chunk that is declined: what the first have added cannot be taken back.
absl::Status NotDeclined(absl::Status status) {
  return absl::IsUnimplemented(status) ? absl::InternalError(std::string(status.message())) : status;
}

// Calls work(first, rows, logits) for chunks of rows, one after another, with their logits, which its kernels
// may change. Tensors may be of any type that the device's Matmul takes; Unimplemented: it takes none of them, and
// nothing that anyone reads was written.
template <typename Args, typename Work>
absl::Status ForEachLogits(const Args& args, const HeadMeans& means, const Work& work) {
  const int64_t set_aside_rows = means.set_aside.elements / args.vocabulary;
  const int64_t limit_rows = std::max<int64_t>(1, means.logits_limit.value / (4 * args.vocabulary));
  const int64_t chunk_rows = ChunkRows(args.rows, set_aside_rows > 0 ? set_aside_rows : limit_rows);
  Slice scratch = means.set_aside;
  if (set_aside_rows == 0) {
    ASSIGN_OR_RETURN(scratch,
                     means.launcher.Scratch(KernelLauncher::kLogits, {4 * chunk_rows * args.vocabulary}));
  }
  for (int64_t first = 0; first < args.rows; first += chunk_rows) {
    const int64_t rows = std::min(chunk_rows, args.rows - first);
    const Slice logits = scratch.Sub(0, rows * args.vocabulary);
    absl::Status status = means.ops.Matmul({.a = args.x.Sub(first * args.columns, rows * args.columns),
                                            .b = args.weight,
                                            .c = logits,
                                            .m = rows,
                                            .n = args.vocabulary,
                                            .k = args.columns,
                                            .transpose_b = Transpose::kYes,
                                            .precision = args.precision,
                                            .b_constness = Constness::kParameter});
    if (status.ok()) status = work(first, rows, logits);
    if (!status.ok()) return first == 0 ? status : NotDeclined(std::move(status));
  }
  return absl::OkStatus();
}

// dx of the rows [first, first + rows), and dweight +=, once `logits` holds the loss's gradient.
template <typename Args>
absl::Status AddGradients(Ops& ops, const Args& args, const Slice& logits, int64_t first, int64_t rows) {
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

// One f64 a row.
absl::StatusOr<Slice> ScratchForLosses(KernelLauncher& launcher, int64_t rows) {
  ASSIGN_OR_RETURN(Slice losses, launcher.Scratch(KernelLauncher::kPartials, {8 * rows}));
  losses.dtype = Dtype::kF64;
  return losses;
}

}  // namespace

absl::Status PortableOps::HeadLoss(const HeadLossArgs& args) {
  RETURN_IF_ERROR(CheckTypedArguments(args));
  RETURN_IF_ERROR(NeedF64(launcher_));
  if (args.rows == 0) return absl::OkStatus();
  const bool with_gradients = !args.dx.empty();
  ASSIGN_OR_RETURN(const Slice losses, ScratchForLosses(launcher_, args.rows));
  RETURN_IF_ERROR(ForEachLogits(
      args, {whole_, launcher_, set_aside_, options_.logits_limit},
      [&](int64_t first, int64_t rows, const Slice& logits) -> absl::Status {
        RETURN_IF_ERROR(launcher_.Launch("softmax_cross_entropy", {{rows, 1, 1}},
                                         {logits, args.targets.Sub(first, rows), losses.Sub(first, rows),
                                          args.vocabulary, args.gradient_scale, int32_t{with_gradients}}));
        return with_gradients ? AddGradients(whole_, args, logits, first, rows) : absl::OkStatus();
      }));
  return launcher_.Launch("sum_f64", {}, {losses, args.loss_sum, args.rows, int32_t{1}});
}

absl::Status PortableOps::HeadStatistics(const HeadStatisticsArgs& args) {
  RETURN_IF_ERROR(CheckTypedArguments(args));
  RETURN_IF_ERROR(NeedF64(launcher_));
  if (args.rows == 0) return absl::OkStatus();
  return ForEachLogits(args, {whole_, launcher_, set_aside_, options_.logits_limit},
                       [&](int64_t first, int64_t rows, const Slice& logits) {
                         return launcher_.Launch(
                             "head_statistics", {{rows, 1, 1}},
                             {logits, args.targets.Sub(first, rows), args.log_sum_exp.Sub(first, rows),
                              args.target_logit.Sub(first, rows), args.vocabulary, args.first_token});
                       });
}

absl::Status PortableOps::JoinHeadStatistics(const JoinHeadStatisticsArgs& args) {
  RETURN_IF_ERROR(CheckArguments(args));
  RETURN_IF_ERROR(NeedF64(launcher_));
  if (args.rows == 0) return absl::OkStatus();
  const bool with_losses = !args.loss_sum.empty();
  Slice losses;
  if (with_losses) {
    ASSIGN_OR_RETURN(losses, ScratchForLosses(launcher_, args.rows));
  }
  RETURN_IF_ERROR(launcher_.Launch(
      "join_head_statistics", OverElements(args.rows),
      {args.statistics, args.log_sum_exp, losses, args.members, args.rows, int32_t{with_losses}}));
  if (!with_losses) return absl::OkStatus();
  return launcher_.Launch("sum_f64", {}, {losses, args.loss_sum, args.rows, int32_t{1}});
}

absl::Status PortableOps::HeadGradient(const HeadGradientArgs& args) {
  RETURN_IF_ERROR(CheckTypedArguments(args));
  if (args.rows == 0) return absl::OkStatus();
  return ForEachLogits(args, {whole_, launcher_, set_aside_, options_.logits_limit},
                       [&](int64_t first, int64_t rows, const Slice& logits) -> absl::Status {
                         RETURN_IF_ERROR(launcher_.Launch(
                             "head_gradient", OverRows(rows, args.vocabulary),
                             {logits, args.targets.Sub(first, rows), args.log_sum_exp.Sub(first, rows),
                              args.vocabulary, args.first_token, args.gradient_scale}));
                         return AddGradients(whole_, args, logits, first, rows);
                       });
}

}  // namespace medley
