#include "kernels/arguments/op_arguments.h"
#include "kernels/portable/launch_shapes.h"
#include "kernels/portable/portable_ops.h"
#include "kernels/portable/typed_kernel.h"
#include "runtime/base/status_macros.h"

namespace medley {

absl::Status PortableOps::EmbeddingForward(const EmbeddingForwardArgs& args) {
  ASSIGN_OR_RETURN(const std::string kernel, TypedKernel("embedding_forward", args));
  return launcher_.Launch(
      kernel.c_str(), OverRows(args.batch * args.sequence, args.columns),
      {args.tokens, args.token_embedding, args.position_embedding, args.y, args.sequence, args.columns,
       args.first_token, args.vocabulary, int32_t{!args.position_embedding.empty()}});
}

absl::Status PortableOps::EmbeddingBackward(const EmbeddingBackwardArgs& args) {
  ASSIGN_OR_RETURN(const std::string of_tokens, TypedKernel("embedding_backward_tokens", args));
  ASSIGN_OR_RETURN(const std::string of_positions, TypedKernel("embedding_backward_positions", args));
  const int64_t tokens = args.batch * args.sequence;
  RETURN_IF_ERROR(launcher_.Launch(of_tokens.c_str(), OverRows(tokens, args.columns),
                                   {args.tokens, args.dy, args.d_token_embedding, tokens, args.columns,
                                    args.first_token, args.vocabulary}));
  if (args.d_position_embedding.empty() || args.batch == 0) return absl::OkStatus();
  return launcher_.Launch(of_positions.c_str(), OverRows(args.sequence, args.columns),
                          {args.dy, args.d_position_embedding, args.batch, args.sequence, args.columns});
}

}  // namespace medley
