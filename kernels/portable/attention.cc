#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/arguments/op_arguments.h"
#include "kernels/portable/launch_shapes.h"
#include "kernels/portable/portable_ops.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr int64_t kLargestHead = 256;

template <typename Args>
absl::Status Objection(const Args& args) {
  if (args.head_size <= kLargestHead) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("head_size is ", args.head_size, ", at most ", kLargestHead));
}

// The instance of a kernel that is wide enough.
std::string Instance(const char* kernel, int64_t head_size) {
  return absl::StrCat(kernel, head_size <= 64 ? "_64" : head_size <= 128 ? "_128" : "_256");
}

float ScaleOf(int64_t head_size) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_size)));
}

}  // namespace

absl::Status PortableOps::AttentionForward(const AttentionForwardArgs& args) {
  RETURN_IF_ERROR(CheckArguments(args));
  RETURN_IF_ERROR(Objection(args));
  return launcher_.Launch(Instance("attention_forward", args.head_size).c_str(),
                          {{CeilDivide(args.sequence, kTile), args.heads, args.batch}},
                          {args.qkv, args.out, args.log_sum_exp, args.sequence, args.heads,
                           args.key_value_heads, args.head_size, ScaleOf(args.head_size)});
}

absl::Status PortableOps::AttentionBackward(const AttentionBackwardArgs& args) {
  RETURN_IF_ERROR(CheckArguments(args));
  RETURN_IF_ERROR(Objection(args));
  const int64_t rows = args.batch * args.sequence * args.heads, tiles = CeilDivide(args.sequence, kTile);
  const float scale = ScaleOf(args.head_size);
  ASSIGN_OR_RETURN(const Slice delta, launcher_.Scratch(KernelLauncher::kPartials, {4 * rows}));
  RETURN_IF_ERROR(
      launcher_.Launch("attention_delta", OverRowGroups(rows),
                       {args.out, args.dout, delta, rows, args.sequence, args.heads, args.head_size}));
  RETURN_IF_ERROR(launcher_.Launch(Instance("attention_query_gradient", args.head_size).c_str(),
                                   {{tiles, args.heads, args.batch}},
                                   {args.qkv, args.dout, args.log_sum_exp, delta, args.dqkv, args.sequence,
                                    args.heads, args.key_value_heads, args.head_size, scale}));
  return launcher_.Launch(Instance("attention_key_value_gradient", args.head_size).c_str(),
                          {{tiles, args.key_value_heads, args.batch}},
                          {args.qkv, args.dout, args.log_sum_exp, delta, args.dqkv, args.sequence, args.heads,
                           args.key_value_heads, args.head_size, scale});
}

}  // namespace medley
