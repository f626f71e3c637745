#include "kernels/arguments/op_arguments.h"
#include "kernels/portable/launch_shapes.h"
#include "kernels/portable/portable_ops.h"
#include "kernels/portable/typed_kernel.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

const char* CastKernel(Dtype from, Dtype to) {
  if (from == to) return from == Dtype::kF32 ? "copy_words" : "copy_half_words";
  if (from == Dtype::kF32) return to == Dtype::kF16 ? "f32_to_f16" : "f32_to_bf16";
  return from == Dtype::kF16 ? "f16_to_f32" : "bf16_to_f32";
}

}  // namespace

absl::Status PortableOps::Add(const AddArgs& args) {
  ASSIGN_OR_RETURN(const std::string kernel, TypedKernel("add", args));
  return launcher_.Launch(kernel.c_str(), OverElementTurns(args.elements),
                          {args.a, args.b, args.c, args.elements});
}

absl::Status PortableOps::Scale(const ScaleArgs& args) {
  RETURN_IF_ERROR(CheckArguments(args));
  return launcher_.Launch("scale", OverElements(args.elements), {args.x, args.elements, args.factor});
}

absl::Status PortableOps::Fill(const FillArgs& args) {
  RETURN_IF_ERROR(CheckArguments(args));
  return launcher_.Launch("fill", OverElements(args.elements), {args.x, args.elements, args.value});
}

absl::Status PortableOps::Cast(const CastArgs& args) {
  RETURN_IF_ERROR(CheckArguments(args));
  return launcher_.Launch(CastKernel(args.x.dtype, args.y.dtype), OverElements(args.elements),
                          {args.x, args.y, args.elements});
}

absl::Status PortableOps::GeluForward(const GeluForwardArgs& args) {
  ASSIGN_OR_RETURN(const std::string kernel, TypedKernel("gelu_forward", args));
  return launcher_.Launch(kernel.c_str(), OverElementTurns(args.elements), {args.x, args.y, args.elements});
}

absl::Status PortableOps::GeluBackward(const GeluBackwardArgs& args) {
  ASSIGN_OR_RETURN(const std::string kernel, TypedKernel("gelu_backward", args));
  return launcher_.Launch(kernel.c_str(), OverElementTurns(args.elements),
                          {args.x, args.dy, args.dx, args.elements});
}

absl::Status PortableOps::SwiGluForward(const SwiGluForwardArgs& args) {
  ASSIGN_OR_RETURN(const std::string kernel, TypedKernel("swiglu_forward", args));
  return launcher_.Launch(kernel.c_str(), OverRows(args.rows, args.columns), {args.x, args.y, args.columns});
}

absl::Status PortableOps::SwiGluBackward(const SwiGluBackwardArgs& args) {
  ASSIGN_OR_RETURN(const std::string kernel, TypedKernel("swiglu_backward", args));
  return launcher_.Launch(kernel.c_str(), OverRows(args.rows, args.columns),
                          {args.x, args.dy, args.dx, args.columns});
}

absl::Status PortableOps::Rotary(const RotaryArgs& args) {
  ASSIGN_OR_RETURN(const std::string kernel, TypedKernel("rotary", args));
  const int64_t pairs = args.rotated_heads * (args.head_size / 2);
  return launcher_.Launch(
      kernel.c_str(), OverRows(args.batch * args.sequence, pairs),
      {args.x, args.cosine, args.sine, args.sequence, args.row_heads * args.head_size, pairs,
       static_cast<int32_t>(args.head_size / 2), args.rotation == Rotation::kForward ? 1.0f : -1.0f});
}

}  // namespace medley
