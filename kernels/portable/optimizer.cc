#include <algorithm>
#include <bit>
#include <vector>

#include "kernels/arguments/adamw_step.h"
#include "kernels/arguments/op_arguments.h"
#include "kernels/portable/launch_shapes.h"
#include "kernels/portable/portable_ops.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// The table that kernel adamw reads (optimizer.h), and how many groups it asks for.
struct RangeTable {
  std::vector<int64_t> fields;
  int64_t ranges = 0, groups = 0;
};

RangeTable TableOf(absl::Span<const AdamWRange> ranges) {
  RangeTable table;
  for (const AdamWRange& range : ranges) {
    if (range.elements == 0) continue;
    table.fields.insert(table.fields.end(), {table.groups, range.first, range.first + range.elements,
                                             int64_t{std::bit_cast<uint32_t>(range.weight_decay)}});
    table.groups += CeilDivide(range.elements, kGroupElements);
    ++table.ranges;
  }
  return table;
}

}  // namespace

absl::Status PortableOps::AdamW(const AdamWArgs& args) {
  RETURN_IF_ERROR(CheckArguments(args));
  if (!launcher_.has_exact_f32()) {
    return absl::UnimplementedError("the device's f32 division or square root does not round to nearest");
  }
  const RangeTable table = TableOf(args.ranges);
  if (table.ranges == 0) return absl::OkStatus();
  const absl::Span<const std::byte> bytes(reinterpret_cast<const std::byte*>(table.fields.data()),
                                          table.fields.size() * sizeof(int64_t));
  ASSIGN_OR_RETURN(const Slice ranges,
                   launcher_.Scratch(KernelLauncher::kPartials, {static_cast<int64_t>(bytes.size())}));
  RETURN_IF_ERROR(queue_.Upload(bytes, *ranges.buffer, {ranges.offset_bytes}));
  const AdamWStep step = MakeAdamWStep(args, AdamWRange{});  // a range's weight decay is in the table
  return launcher_.Launch(
      "adamw", {{table.groups, 1, 1}},
      {args.parameter, args.gradient, args.m, args.v, ranges, table.ranges, step.gradient_scale, step.beta1,
       step.one_minus_beta1, step.beta2, step.one_minus_beta2, step.correction1, step.correction2,
       step.epsilon, step.learning_rate});
}

absl::Status PortableOps::SquaredNorm(const SquaredNormArgs& args) {
  RETURN_IF_ERROR(CheckArguments(args));
  if (!launcher_.has_f64()) return absl::UnimplementedError("the device has no f64");
  constexpr int64_t kMostGroups = 1024;
  const int64_t groups = std::min(kMostGroups, CeilDivide(args.elements, 4 * kGroupElements));
  ASSIGN_OR_RETURN(const Slice sums, launcher_.Scratch(KernelLauncher::kPartials, {8 * groups}));
  RETURN_IF_ERROR(launcher_.Launch("squared_norm_partials", {{groups, 1, 1}}, {args.x, sums, args.elements}));
  return launcher_.Launch("sum_f64", {}, {sums, args.out, groups, int32_t{0}});
}

}  // namespace medley
