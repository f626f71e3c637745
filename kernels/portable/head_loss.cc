#include <algorithm>
#include <string>
#include <utility>

#include "kernels/arguments/op_arguments.h"
#include "kernels/portable/launch_shapes.h"
#include "kernels/portable/portable_ops.h"
#include "kernels/portable/typed_kernel.h"
#include "runtime/base/op_scratch.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// How the logits of some rows lie: f32, and their gradients where they were, in the type that products multiply.
struct LogitsShape {
  Dtype gradient = Dtype::kF32;
  int64_t stride = 0;  // from a row's first logit to the next one's
};

// What a head is computed with.
struct HeadMeans {
  Ops& ops;
  KernelLauncher& launcher;
  const PortableOps::Options& options;
  Slice set_aside;  // for logits; empty: the launcher's scratch is used

  // Products of logits, which a strided one does where there is one for 16 bits.
  absl::Status Multiply(const MatmulArgs& args, const LogitsShape& shape, int64_t a_stride,
                        int64_t c_stride) const {
    return shape.gradient == Dtype::kF32 ? ops.Matmul(args)
                                         : options.strided->MatmulOfRows(args, a_stride, c_stride);
  }
};

absl::Status NeedF64(const KernelLauncher& launcher) {
  return launcher.has_f64() ? absl::OkStatus() : absl::UnimplementedError("the device has no f64");
}

// How many rows' logits are made at a time where there is room for `fit`: whole tiles, if not all of them.
int64_t ChunkRows(int64_t rows, int64_t fit) {
  if (rows <= fit) return rows;
  return fit < kTile ? fit : fit / kTile * kTile;
}

// Calls work(first, tokens, store) for parts of the vocabulary, in each of which the fast kernels of 16 bits find what
// they ask for, a number of tokens that is a multiple of 8, or which are few. The few come first: what they add up to
// is rounded once more than the rest.
template <typename Work>
absl::Status ForPartsOf(int64_t vocabulary, const LogitsShape& shape, const Work& work) {
  const int64_t few = shape.gradient == Dtype::kF32 ? 0 : vocabulary % 8;
  if (few == 0 || few == vocabulary) return work(0, vocabulary, Store::kOverwrite);
  RETURN_IF_ERROR(work(vocabulary - few, few, Store::kOverwrite));
  return work(0, vocabulary - few, Store::kAdd);
}

// A product that is declined after others: what they have added cannot be taken back.
absl::Status NotDeclined(absl::Status status) {
  return absl::IsUnimplemented(status) ? absl::InternalError(std::string(status.message())) : status;
}

template <typename Args, typename Work>
absl::Status ForEachLogitsOf(const LogitsShape& shape, const Args& args, const HeadMeans& means,
                             const Work& work) {
  const int64_t set_aside_rows = means.set_aside.elements / shape.stride;
  const int64_t limit_rows = std::max<int64_t>(1, means.options.logits_limit.value / (4 * shape.stride));
  const int64_t chunk_rows = ChunkRows(args.rows, set_aside_rows > 0 ? set_aside_rows : limit_rows);
  Slice scratch = means.set_aside;
  if (set_aside_rows == 0) {
    ASSIGN_OR_RETURN(scratch,
                     means.launcher.Scratch(KernelLauncher::kLogits, {4 * chunk_rows * shape.stride}));
  }
  for (int64_t first = 0; first < args.rows; first += chunk_rows) {
    const int64_t rows = std::min(chunk_rows, args.rows - first);
    const Slice logits = scratch.Sub(0, rows * shape.stride);
    const auto multiply = [&](int64_t first_token, int64_t tokens, Store) {
      return means.Multiply({.a = args.x.Sub(first * args.columns, rows * args.columns),
                             .b = args.weight.Sub(first_token * args.columns, tokens * args.columns),
                             .c = logits.Sub(first_token, logits.elements - first_token),
                             .m = rows,
                             .n = tokens,
                             .k = args.columns,
                             .transpose_b = Transpose::kYes,
                             .precision = args.precision,
                             .b_constness = Constness::kParameter},
                            shape, args.columns, shape.stride);
    };
    absl::Status status = ForPartsOf(args.vocabulary, shape, multiply);
    if (status.ok()) status = work(shape, first, rows, logits);
    if (!status.ok()) return first == 0 ? status : NotDeclined(std::move(status));
  }
  return absl::OkStatus();
}

// Calls work(shape, first, rows, logits) for chunks of rows, one after another, with their logits, which its kernels
// may change. Tensors may be of any type that the device's Matmul takes; Unimplemented: it takes none of them, and
// nothing that anyone reads was written.
template <typename Args, typename Work>
absl::Status ForEachLogits(const Args& args, const HeadMeans& means, const Work& work) {
  if (args.precision != Precision::kF32 && means.options.strided != nullptr) {
    const LogitsShape shape = {TypeOf(args.precision), LogitsStride(args.vocabulary)};
    absl::Status status = ForEachLogitsOf(shape, args, means, work);
    if (!absl::IsUnimplemented(status)) return status;
  }
  return ForEachLogitsOf({.stride = args.vocabulary}, args, means, work);
}

// dx of the rows [first, first + rows), and dweight +=, once the loss's gradient is where `logits` were.
template <typename Args>
absl::Status AddGradients(const HeadMeans& means, const Args& args, const LogitsShape& shape,
                          const Slice& logits, int64_t first, int64_t rows) {
  Slice gradients = logits;
  gradients.dtype = shape.gradient;
  const int64_t stride = shape.stride * (SizeOf(Dtype::kF32).value / SizeOf(shape.gradient).value);
  gradients.elements = (rows - 1) * stride + args.vocabulary;
  const auto of_tokens = [&](int64_t first_token) {
    return gradients.Sub(first_token, gradients.elements - first_token);
  };
  RETURN_IF_ERROR(ForPartsOf(args.vocabulary, shape, [&](int64_t first_token, int64_t tokens, Store store) {
    return means.Multiply({.a = of_tokens(first_token),
                           .b = args.weight.Sub(first_token * args.columns, tokens * args.columns),
                           .c = args.dx.Sub(first * args.columns, rows * args.columns),
                           .m = rows,
                           .n = args.columns,
                           .k = tokens,
                           .store = store,
                           .precision = args.precision,
                           .b_constness = Constness::kParameter},
                          shape, stride, args.columns);
  }));
  return ForPartsOf(args.vocabulary, shape, [&](int64_t first_token, int64_t tokens, Store store) {
    absl::Status status =
        means.Multiply({.a = of_tokens(first_token),
                        .b = args.x.Sub(first * args.columns, rows * args.columns),
                        .c = args.dweight.Sub(first_token * args.columns, tokens * args.columns),
                        .m = tokens,
                        .n = args.columns,
                        .k = rows,
                        .transpose_a = Transpose::kYes,
                        .store = Store::kAdd,
                        .precision = args.precision},
                       shape, stride, args.columns);
    const bool is_second_part = store == Store::kAdd;
    return is_second_part ? NotDeclined(std::move(status)) : status;
  });
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
  const HeadMeans means{whole_, launcher_, options_, set_aside_};
  RETURN_IF_ERROR(ForEachLogits(
      args, means,
      [&](const LogitsShape& shape, int64_t first, int64_t rows, const Slice& logits) -> absl::Status {
        RETURN_IF_ERROR(
            launcher_.Launch(KernelOf("softmax_cross_entropy", shape.gradient).c_str(), {{rows, 1, 1}},
                             {logits, args.targets.Sub(first, rows), losses.Sub(first, rows), args.vocabulary,
                              shape.stride, args.gradient_scale, int32_t{with_gradients}}));
        return with_gradients ? AddGradients(means, args, shape, logits, first, rows) : absl::OkStatus();
      }));
  return launcher_.Launch("sum_f64", {}, {losses, args.loss_sum, args.rows, int32_t{1}});
}

absl::Status PortableOps::HeadStatistics(const HeadStatisticsArgs& args) {
  RETURN_IF_ERROR(CheckTypedArguments(args));
  RETURN_IF_ERROR(NeedF64(launcher_));
  if (args.rows == 0) return absl::OkStatus();
  const HeadMeans means{whole_, launcher_, options_, set_aside_};
  return ForEachLogits(
      args, means, [&](const LogitsShape& shape, int64_t first, int64_t rows, const Slice& logits) {
        return launcher_.Launch(
            "head_statistics", {{rows, 1, 1}},
            {logits, args.targets.Sub(first, rows), args.log_sum_exp.Sub(first, rows),
             args.target_logit.Sub(first, rows), args.vocabulary, shape.stride, args.first_token});
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
  const HeadMeans means{whole_, launcher_, options_, set_aside_};
  return ForEachLogits(
      args, means,
      [&](const LogitsShape& shape, int64_t first, int64_t rows, const Slice& logits) -> absl::Status {
        RETURN_IF_ERROR(
            launcher_.Launch(KernelOf("head_gradient", shape.gradient).c_str(), {{rows, 1, 1}},
                             {logits, args.targets.Sub(first, rows), args.log_sum_exp.Sub(first, rows),
                              args.vocabulary, shape.stride, args.first_token, args.gradient_scale}));
        return AddGradients(means, args, shape, logits, first, rows);
      });
}

}  // namespace medley
