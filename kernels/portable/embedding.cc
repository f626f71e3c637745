#include "kernels/arguments/op_arguments.h"
#include "kernels/portable/launch_shapes.h"
#include "kernels/portable/portable_ops.h"
#include "runtime/base/status_macros.h"

namespace medley {

absl::Status PortableOps::EmbeddingForward(const EmbeddingForwardArgs& args) {
  RETURN_IF_ERROR(CheckArguments(args));
  return launcher_.Launch(
      "embedding_forward", OverRows(args.batch * args.sequence, args.columns),
      {args.tokens, args.token_embedding, args.position_embedding, args.y, args.sequence, args.columns,
       args.first_token, args.vocabulary, int32_t{!args.position_embedding.empty()}});
}

absl::Status PortableOps::EmbeddingBackward(const EmbeddingBackwardArgs& args) {
  RETURN_IF_ERROR(CheckArguments(args));
  const int64_t tokens = args.batch * args.sequence;
  RETURN_IF_ERROR(launcher_.Launch("embedding_backward_tokens", OverRows(tokens, args.columns),
                                   {args.tokens, args.dy, args.d_token_embedding, tokens, args.columns,
                                    args.first_token, args.vocabulary}));
  if (args.d_position_embedding.empty() || args.batch == 0) return absl::OkStatus();
  return launcher_.Launch("embedding_backward_positions", OverRows(args.sequence, args.columns),
                          {args.dy, args.d_position_embedding, args.batch, args.sequence, args.columns});
}

}  // namespace medley
