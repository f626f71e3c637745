#include "kernels/arguments/op_arguments.h"
#include "kernels/portable/launch_shapes.h"
#include "kernels/portable/portable_ops.h"
#include "kernels/portable/typed_kernel.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// The first of the two kernels that sum along columns has one group a block of columns and a chunk of rows.
LaunchShape OverColumnChunks(int64_t columns, int64_t chunks) {
  return {{CeilDivide(columns, kColumnsPerGroup), chunks, 1}};
}

// The second: out[column] += what the first left in `sums`.
absl::Status AddColumnSums(KernelLauncher& launcher, const Slice& sums, const Slice& out, int64_t chunks,
                           int64_t columns) {
  return launcher.Launch("add_column_sums", {{CeilDivide(columns, kRowLanes), 1, 1}},
                         {sums, out, chunks, columns});
}

}  // namespace

absl::Status PortableOps::SumRows(const SumRowsArgs& args) {
  ASSIGN_OR_RETURN(const std::string kernel, TypedKernel("column_sums", args));
  const auto [chunk_rows, chunks] = ChunksOf(args.rows);
  ASSIGN_OR_RETURN(const Slice sums,
                   launcher_.Scratch(KernelLauncher::kPartials, {4 * chunks * args.columns}));
  RETURN_IF_ERROR(launcher_.Launch(kernel.c_str(), OverColumnChunks(args.columns, chunks),
                                   {args.x, sums, args.rows, args.columns, chunk_rows}));
  return AddColumnSums(launcher_, sums, args.out, chunks, args.columns);
}

absl::Status PortableOps::LayerNormForward(const LayerNormForwardArgs& args) {
  ASSIGN_OR_RETURN(const std::string kernel, TypedKernel("layer_norm_forward", args));
  return launcher_.Launch(
      kernel.c_str(), OverRowGroups(args.rows),
      {args.x, args.gamma, args.beta, args.y, args.mean, args.rstd, args.rows, args.columns, args.epsilon});
}

// The column sums come first: dx may be dy.
absl::Status PortableOps::LayerNormBackward(const LayerNormBackwardArgs& args) {
  ASSIGN_OR_RETURN(const std::string sums_kernel, TypedKernel("layer_norm_column_sums", args));
  ASSIGN_OR_RETURN(const std::string dx_kernel, TypedKernel("layer_norm_dx", args));
  const auto [chunk_rows, chunks] = ChunksOf(args.rows);
  const int64_t elements = chunks * args.columns;
  ASSIGN_OR_RETURN(const Slice sums, launcher_.Scratch(KernelLauncher::kPartials, {8 * elements}));
  const Slice gamma_sums = sums.Sub(0, elements), beta_sums = sums.Sub(elements, elements);
  RETURN_IF_ERROR(launcher_.Launch(
      sums_kernel.c_str(), OverColumnChunks(args.columns, chunks),
      {args.dy, args.x, args.mean, args.rstd, gamma_sums, beta_sums, args.rows, args.columns, chunk_rows}));
  RETURN_IF_ERROR(AddColumnSums(launcher_, gamma_sums, args.dgamma, chunks, args.columns));
  RETURN_IF_ERROR(AddColumnSums(launcher_, beta_sums, args.dbeta, chunks, args.columns));
  return launcher_.Launch(dx_kernel.c_str(), OverRowGroups(args.rows),
                          {args.dy, args.x, args.gamma, args.mean, args.rstd, args.dx, args.rows,
                           args.columns, int32_t{args.store_dx == Store::kAdd}});
}

absl::Status PortableOps::RmsNormForward(const RmsNormForwardArgs& args) {
  ASSIGN_OR_RETURN(const std::string kernel, TypedKernel("rms_norm_forward", args));
  return launcher_.Launch(kernel.c_str(), OverRowGroups(args.rows),
                          {args.x, args.gamma, args.y, args.rstd, args.rows, args.columns, args.epsilon});
}

absl::Status PortableOps::RmsNormBackward(const RmsNormBackwardArgs& args) {
  ASSIGN_OR_RETURN(const std::string sums_kernel, TypedKernel("rms_norm_column_sums", args));
  ASSIGN_OR_RETURN(const std::string dx_kernel, TypedKernel("rms_norm_dx", args));
  const auto [chunk_rows, chunks] = ChunksOf(args.rows);
  ASSIGN_OR_RETURN(const Slice sums,
                   launcher_.Scratch(KernelLauncher::kPartials, {4 * chunks * args.columns}));
  RETURN_IF_ERROR(launcher_.Launch(sums_kernel.c_str(), OverColumnChunks(args.columns, chunks),
                                   {args.dy, args.x, args.rstd, sums, args.rows, args.columns, chunk_rows}));
  RETURN_IF_ERROR(AddColumnSums(launcher_, sums, args.dgamma, chunks, args.columns));
  return launcher_.Launch(dx_kernel.c_str(), OverRowGroups(args.rows),
                          {args.dy, args.x, args.gamma, args.rstd, args.dx, args.rows, args.columns,
                           int32_t{args.store_dx == Store::kAdd}});
}

}  // namespace medley
