#include "kernels/emulated/op_cost.h"

#include <algorithm>

#include "runtime/device/op_slices.h"

namespace medley {
namespace {

constexpr double kElementBytes = 4;

// What most ops ask: their slices, nothing to multiply.
template <typename Args>
void AddDetails(const Args& args, OpCost& cost) {}

void AddDetails(const MatmulArgs& args, OpCost& cost) {
  cost.precision = args.precision;
  cost.depth = args.k;
  cost.flops = 2.0 * static_cast<double>(args.m) * static_cast<double>(args.n) * static_cast<double>(args.k);
  cost.variation = static_cast<uint8_t>(
      (args.transpose_a == Transpose::kYes ? 1 : 0) | (args.transpose_b == Transpose::kYes ? 2 : 0) |
      (static_cast<int>(args.epilogue) << 2) | (args.store == Store::kAdd ? 16 : 0));
}

// One product of [S,D] with [D,S] over the pairs that a causal mask leaves, for all heads.
template <typename Args>
double MaskedProductFlops(const Args& args) {
  const double pairs = 0.5 * static_cast<double>(args.sequence) * (static_cast<double>(args.sequence) + 1);
  return 2.0 * static_cast<double>(args.batch) * static_cast<double>(args.heads) * pairs *
         static_cast<double>(args.head_size);
}

void AddDetails(const AttentionForwardArgs& args, OpCost& cost) {
  cost.precision = args.precision;
  cost.flops = 2 * MaskedProductFlops(args);  // scores, values
}

void AddDetails(const AttentionBackwardArgs& args, OpCost& cost) {
  cost.precision = args.precision;
  // Scores again, and the gradients of scores, queries, keys, values.
  cost.flops = 5 * MaskedProductFlops(args);
}

// The logits, and with gradients two more such products.
template <typename Args>
void AddHeadProducts(const Args& args, bool with_gradients, OpCost& cost) {
  cost.precision = args.precision;
  const double product = 2.0 * static_cast<double>(args.rows) * static_cast<double>(args.columns) *
                         static_cast<double>(args.vocabulary);
  cost.flops = with_gradients ? 3 * product : product;
}

void AddDetails(const HeadLossArgs& args, OpCost& cost) { AddHeadProducts(args, !args.dx.empty(), cost); }
void AddDetails(const HeadStatisticsArgs& args, OpCost& cost) { AddHeadProducts(args, false, cost); }
void AddDetails(const HeadGradientArgs& args, OpCost& cost) { AddHeadProducts(args, true, cost); }

void AddDetails(const RotaryArgs& args, OpCost& cost) {
  cost.variation = args.rotation == Rotation::kBackward ? 1 : 0;
  if (args.row_heads > 0) {  // the other heads are not touched
    cost.bytes *= static_cast<double>(args.rotated_heads) / static_cast<double>(args.row_heads);
  }
}

// The slices count the whole table; a token moves its row alone. Of which rank's part that row is depends on
// the ids: each counts.
template <typename Args>
double RowsBeyondTheTableBytes(const Args& args) {
  const double tokens = static_cast<double>(args.batch) * static_cast<double>(args.sequence);
  if (tokens == 0) return 0;
  return (tokens - static_cast<double>(args.vocabulary)) * static_cast<double>(args.columns) * kElementBytes;
}

void AddDetails(const EmbeddingForwardArgs& args, OpCost& cost) {
  cost.bytes += RowsBeyondTheTableBytes(args);
}

void AddDetails(const EmbeddingBackwardArgs& args, OpCost& cost) {
  cost.bytes += 2 * RowsBeyondTheTableBytes(args);
}

// Only the ranges, not what lies between: parameter, m and v updated, gradient read.
void AddDetails(const AdamWArgs& args, OpCost& cost) {
  double elements = 0;
  for (const AdamWRange& range : args.ranges) elements += static_cast<double>(range.elements);
  cost.bytes = 7 * elements * kElementBytes;
}

template <typename Args>
OpCost Cost(Args args) {
  OpCost cost{.kind = KindOf(args)};
  for (const OpSlice& slice : SlicesOf(args)) {
    const double touched =
        static_cast<double>(slice.elements) * static_cast<double>(SizeOf(slice.dtype).value);
    cost.bytes += slice.access == Access::kUpdate ? 2 * touched : touched;
  }
  AddDetails(args, cost);
  return cost;
}

double ProductRate(const EmulationProfile& profile, const OpCost& cost) {
  const Precision precision = profile.computes().For(cost.precision);
  const double rate = precision == Precision::kBf16  ? profile.matmul_bf16_flops_per_second
                      : precision == Precision::kF16 ? profile.matmul_f16_flops_per_second
                                                     : profile.matmul_f32_flops_per_second;
  const bool attention = cost.kind == OpKind::kAttentionForward || cost.kind == OpKind::kAttentionBackward;
  return attention ? rate * profile.attention_efficiency : rate;
}

}  // namespace

#define MEDLEY_DEFINE_COST(name) \
  OpCost CostOf(const name##Args& args) { return Cost(args); }
MEDLEY_EACH_OP(MEDLEY_DEFINE_COST)
#undef MEDLEY_DEFINE_COST

double RooflineSeconds(const EmulationProfile& profile, const OpCost& cost) {
  const double computing = cost.flops / ProductRate(profile, cost);
  const double moving = cost.bytes / profile.memory_bytes_per_second;
  return profile.op_overhead_seconds + std::max(computing, moving);
}

}  // namespace medley
