#include "kernels/cuda/attention_graph.h"

#include "runtime/base/status_macros.h"

namespace medley {
namespace {

using Tensor = CudnnGraph::Tensor;
using Storage = CudnnGraph::Storage;
using Dimensions = CudnnGraph::Dimensions;

// The tensors and steps that both directions have in common. Dimensions are [B,heads,rows,columns]
// throughout.
class Attention {
 public:
  Attention(const CudnnLibrary& library, const AttentionShape& shape) : graph(library), shape(shape) {}

  CudnnGraph graph;
  const AttentionShape shape;

  int64_t row_heads() const { return shape.heads + 2 * shape.key_value_heads; }

  // `heads` heads of rows of `row_heads` heads, as [B,heads,S,D].
  Tensor Heads(int64_t id, int64_t heads, int64_t row_heads) {
    return graph.AddTensor({.dimensions = {shape.batch, heads, shape.sequence, shape.head_size},
                            .strides = HeadStrides(row_heads),
                            .type = CUDNN_DATA_BFLOAT16,
                            .storage = Storage::kDevice,
                            .id = id});
  }
  // The same heads, transposed: [B,heads,D,S].
  Tensor HeadsTransposed(int64_t id, int64_t heads, int64_t row_heads) {
    const Dimensions s = HeadStrides(row_heads);
    return graph.AddTensor({.dimensions = {shape.batch, heads, shape.head_size, shape.sequence},
                            .strides = {s[0], s[1], s[3], s[2]},
                            .type = CUDNN_DATA_BFLOAT16,
                            .storage = Storage::kDevice,
                            .id = id});
  }
  Tensor ByValue(int64_t id) {
    return graph.AddTensor({.dimensions = {1, 1, 1, 1}, .storage = Storage::kByValue, .id = id});
  }
  Tensor Scores(cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return graph.AddTensor(
        {.dimensions = {shape.batch, shape.heads, shape.sequence, shape.sequence}, .type = type});
  }
  Tensor RowValues() {
    return graph.AddTensor({.dimensions = {shape.batch, shape.heads, shape.sequence, 1}});
  }
  Tensor StoredRowValues(int64_t id) {
    return graph.AddTensor(
        {.dimensions = {shape.batch, shape.heads, shape.sequence, 1}, .storage = Storage::kDevice, .id = id});
  }

  Tensor Combine(cudnnPointwiseMode_t mode, Tensor x, Tensor b, Tensor y) {
    graph.Pointwise(mode, x, &b, nullptr, y);
    return y;
  }

  // scale * query key^T, where a key comes after its query: masked.
  Tensor MaskedScores(Tensor query, Tensor key_transposed, Tensor scale) {
    const Tensor products = Scores(), scaled = Scores();
    graph.Matmul(query, key_transposed, products);
    Combine(CUDNN_POINTWISE_MUL, products, scale, scaled);
    const Tensor row = Scores(CUDNN_DATA_INT32), column = Scores(CUDNN_DATA_INT32);
    graph.Index(scaled, 2, row);
    graph.Index(scaled, 3, column);
    const Tensor seen = Scores(CUDNN_DATA_BOOLEAN);
    graph.Pointwise(CUDNN_POINTWISE_CMP_GE, row, &column, nullptr, seen, CUDNN_DATA_BOOLEAN);
    const Tensor masked = ByValue(kMasked), result = Scores();
    graph.Pointwise(CUDNN_POINTWISE_BINARY_SELECT, scaled, &masked, &seen, result);
    return result;
  }

  // gradient = x^T rows, summed over the query heads that share a key-value head.
  void Transposed(Tensor x, Tensor rows, int64_t gradient_id, int64_t heads_id) {
    const Tensor transposed = Scores(CUDNN_DATA_BFLOAT16);
    graph.Reshape(x, transposed);
    const Tensor gradient = Heads(gradient_id, shape.key_value_heads, row_heads());
    if (shape.heads == shape.key_value_heads) {
      graph.Matmul(transposed, rows, gradient);
      return;
    }
    const Tensor of_each_head = Heads(heads_id, shape.heads, shape.heads);
    graph.Matmul(transposed, rows, of_each_head);
    graph.Reduce(CUDNN_REDUCE_TENSOR_ADD, of_each_head, gradient);
  }

 private:
  Dimensions HeadStrides(int64_t row_heads) const {
    const int64_t d = shape.head_size;
    return {shape.sequence * row_heads * d, d, row_heads * d, 1};
  }
};

}  // namespace

absl::StatusOr<CudnnPlan> CompileAttentionForward(const CudnnLibrary& library, const CudnnTarget& target,
                                                  const AttentionShape& shape) {
  Attention attention(library, shape);
  CudnnGraph& graph = attention.graph;
  const Tensor query = attention.Heads(kQuery, shape.heads, attention.row_heads());
  const Tensor key = attention.HeadsTransposed(kKey, shape.key_value_heads, attention.row_heads());
  const Tensor value = attention.Heads(kValue, shape.key_value_heads, attention.row_heads());
  const Tensor scores = attention.MaskedScores(query, key, attention.ByValue(kScale));

  // The softmax as cuDNN's engines know it: exp(s - max) / sum, and log(sum) + max.
  const Tensor maximum = attention.RowValues();
  graph.Reduce(CUDNN_REDUCE_TENSOR_MAX, scores, maximum);
  const Tensor shifted = attention.Combine(CUDNN_POINTWISE_SUB, scores, maximum, attention.Scores());
  const Tensor exponentials = attention.Scores();
  graph.Pointwise(CUDNN_POINTWISE_EXP, shifted, nullptr, nullptr, exponentials);
  const Tensor sum = attention.RowValues(), log_sum = attention.RowValues();
  graph.Reduce(CUDNN_REDUCE_TENSOR_ADD, exponentials, sum);
  graph.Pointwise(CUDNN_POINTWISE_LOG, sum, nullptr, nullptr, log_sum);
  attention.Combine(CUDNN_POINTWISE_ADD, log_sum, maximum, attention.StoredRowValues(kLogSumExp));
  const Tensor weights =
      attention.Combine(CUDNN_POINTWISE_DIV, exponentials, sum, attention.Scores(CUDNN_DATA_BFLOAT16));
  graph.Matmul(weights, value, attention.Heads(kOut, shape.heads, shape.heads));
  return std::move(graph).Compile(target, CudnnGraph::Determinism::kRequired);
}

absl::StatusOr<CudnnPlan> CompileAttentionBackward(const CudnnLibrary& library, const CudnnTarget& target,
                                                   const AttentionShape& shape) {
  Attention attention(library, shape);
  CudnnGraph& graph = attention.graph;
  const Tensor scale = attention.ByValue(kScale);
  const Tensor query = attention.Heads(kQuery, shape.heads, attention.row_heads());
  const Tensor key_transposed = attention.HeadsTransposed(kKey, shape.key_value_heads, attention.row_heads());
  const Tensor key = attention.Heads(kKey, shape.key_value_heads, attention.row_heads());
  const Tensor value_transposed =
      attention.HeadsTransposed(kValue, shape.key_value_heads, attention.row_heads());
  const Tensor out = attention.Heads(kOut, shape.heads, shape.heads);
  const Tensor d_out = attention.Heads(kDOut, shape.heads, shape.heads);

  // sum over a row of d_out * out, which is the sum over its softmax of d_weights * weights.
  const Tensor products =
      graph.AddTensor({.dimensions = {shape.batch, shape.heads, shape.sequence, shape.head_size}});
  attention.Combine(CUDNN_POINTWISE_MUL, d_out, out, products);
  const Tensor row_sum = attention.RowValues();
  graph.Reduce(CUDNN_REDUCE_TENSOR_ADD, products, row_sum);
  const Tensor softmax_sum = attention.Combine(CUDNN_POINTWISE_MUL, row_sum, attention.ByValue(kOne),
                                               attention.StoredRowValues(kSoftmaxSum));

  // The softmax again: exp(scores - log_sum_exp).
  const Tensor scores = attention.MaskedScores(query, key_transposed, scale);
  const Tensor shifted = attention.Combine(CUDNN_POINTWISE_SUB, scores, attention.StoredRowValues(kLogSumExp),
                                           attention.Scores());
  const Tensor weights = attention.Scores();
  graph.Pointwise(CUDNN_POINTWISE_EXP, shifted, nullptr, nullptr, weights);
  attention.Transposed(weights, d_out, kDValue, kDValueHeads);

  // d_scores = weights * (d_out value^T - softmax_sum) * scale.
  const Tensor d_weights = attention.Scores();
  graph.Matmul(d_out, value_transposed, d_weights);
  const Tensor centred = attention.Combine(CUDNN_POINTWISE_SUB, d_weights, softmax_sum, attention.Scores());
  const Tensor weighted = attention.Combine(CUDNN_POINTWISE_MUL, centred, weights, attention.Scores());
  const Tensor d_scores =
      attention.Combine(CUDNN_POINTWISE_MUL, weighted, scale, attention.Scores(CUDNN_DATA_BFLOAT16));
  attention.Transposed(d_scores, query, kDKey, kDKeyHeads);
  graph.Matmul(d_scores, key, attention.Heads(kDQuery, shape.heads, attention.row_heads()));
  return std::move(graph).Compile(target, CudnnGraph::Determinism::kRequired);
}

}  // namespace medley
