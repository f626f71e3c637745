#pragma once
#include <cstdint>

#include "absl/status/status.h"
#include "runtime/device/device_queue.h"
#include "runtime/tensor/dtype.h"

// The ops that a backend provides for GPT-2: what each computes, over which shapes, and what it may assume.
//
// All tensors are row-major and contiguous. Legend: B sequences, S positions, C hidden size,
// H heads, D = C / H, V vocabulary. Sizes may be zero where a loop over them makes sense; then
// nothing is written. Unless an op says otherwise, outputs must not overlap inputs and are
// overwritten; "+=" marks those that are added to.
//
// Ops are submitted to the device's queue, in order. They return an error only for what can be
// seen at submission (a slice past the end of its buffer: OutOfRange; a shape that the backend
// cannot do: Unimplemented); later failures poison the queue.
namespace medley {

// `elements` elements of `buffer` from byte `offset`. Does not own the buffer.
struct Slice {
  Buffer* buffer = nullptr;
  int64_t offset_bytes = 0;
  int64_t elements = 0;

  // `count` elements of `element_bytes` each, from element `first` of this slice.
  Slice Sub(int64_t first, int64_t count, int64_t element_bytes = 4) const {
    return {buffer, offset_bytes + first * element_bytes, count};
  }
  bool empty() const { return buffer == nullptr; }
};

enum class Transpose : uint8_t { kNo, kYes };
enum class Store : uint8_t { kOverwrite, kAdd };

// Whether an operand is a parameter, that is, changes only before ParametersChanged(). A backend
// may keep a packed or converted copy of it.
enum class Constness : uint8_t { kVaries, kParameter };

// c[m,n] = op(a)[m,k] op(b)[k,n] (+ bias[n] on every row), or += with Store::kAdd.
// op(x) is x or its transpose: with kYes, `a` is stored [k,m] and `b` is stored [n,k].
struct MatmulArgs {
  Slice a, b, c;
  int64_t m = 0, n = 0, k = 0;
  Transpose transpose_a = Transpose::kNo;
  Transpose transpose_b = Transpose::kNo;
  Slice bias;  // empty: none
  Store store = Store::kOverwrite;
  Precision precision = Precision::kF32;
  Constness b_constness = Constness::kVaries;
};

// y[r,:] = (x[r,:] - mean[r]) * rstd[r] * gamma + beta, with mean and rstd = 1/sqrt(variance + epsilon) of each row.
struct LayerNormForwardArgs {
  Slice x, gamma, beta;    // [rows, columns], [columns], [columns]
  Slice y, mean, rstd;     // out: [rows, columns], [rows], [rows]
  int64_t rows = 0, columns = 0;
  float epsilon = 1e-5f;
};

// dx (+)= gradient through LayerNormForward; dgamma += ; dbeta +=. `y` is not needed.
struct LayerNormBackwardArgs {
  Slice dy, x, gamma, mean, rstd;
  Slice dx;             // stored as `store_dx` says; may be the same slice as dy only with kOverwrite
  Slice dgamma, dbeta;  // +=
  int64_t rows = 0, columns = 0;
  Store store_dx = Store::kOverwrite;
};

// y = 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))); y may be x.
struct GeluForwardArgs {
  Slice x, y;
  int64_t elements = 0;
};

// dx = dy * gelu'(x); dx may be dy.
struct GeluBackwardArgs {
  Slice x, dy, dx;
  int64_t elements = 0;
};

// Causal softmax attention, scores scaled by 1/sqrt(D). qkv is [B,S,3,H,D] (query, key, value side by
// side as GPT-2's c_attn makes them). Uses at most O(S * block) memory a head, never S x S for the batch.
struct AttentionForwardArgs {
  Slice qkv;              // [B,S,3,H,D]
  Slice out;              // out: [B,S,H,D]
  Slice log_sum_exp;      // out: [B,H,S], of the scaled scores
  int64_t batch = 0, sequence = 0, heads = 0, head_size = 0;
  Precision precision = Precision::kF32;
};
struct AttentionBackwardArgs {
  Slice qkv, out, log_sum_exp, dout;
  Slice dqkv;             // out: [B,S,3,H,D]
  int64_t batch = 0, sequence = 0, heads = 0, head_size = 0;
  Precision precision = Precision::kF32;
};

// y[b,s,:] = token_embedding[tokens[b,s],:] + position_embedding[s,:]. Tokens are i32 in [0, V): the caller has checked.
struct EmbeddingForwardArgs {
  Slice tokens, token_embedding, position_embedding;  // [B,S] i32, [V,C], [>=S,C]
  Slice y;                                            // out: [B,S,C]
  int64_t batch = 0, sequence = 0, columns = 0;
};
struct EmbeddingBackwardArgs {
  Slice tokens, dy;
  Slice d_token_embedding, d_position_embedding;      // += (tokens in order, so the sum order is fixed)
  int64_t batch = 0, sequence = 0, columns = 0;
};

// Logits = x weight^T, never stored whole; loss is the sum over rows of -log softmax(logits)[target].
// With gradients: dx = gradient_scale * d loss / d x, dweight += gradient_scale * d loss / d weight.
struct HeadLossArgs {
  Slice x, weight, targets;     // [rows,C], [V,C] (as Constness::kParameter), [rows] i32
  Slice loss_sum;               // out: one f64, += (the caller zeroes it)
  Slice dx, dweight;            // both empty: loss only
  int64_t rows = 0, columns = 0, vocabulary = 0;
  float gradient_scale = 1.0f;
  Precision precision = Precision::kF32;
};

// c = a + b; c may be a or b.
struct AddArgs {
  Slice a, b, c;
  int64_t elements = 0;
};

// out[c] += sum over r of x[r,c].
struct SumRowsArgs {
  Slice x, out;
  int64_t rows = 0, columns = 0;
};

// AdamW (Loshchilov & Hutter 2019, decoupled decay), t = step >= 1:
//   g = gradient_scale * gradient; m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2;
//   p -= lr * ( (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + epsilon) + weight_decay * p )
// Every operation rounds to f32 on its own (no fused multiply-add), so that every backend gives the same bits.
struct AdamWArgs {
  Slice parameter, gradient, m, v;
  int64_t elements = 0;
  float learning_rate = 0, beta1 = 0.9f, beta2 = 0.95f, epsilon = 1e-8f, weight_decay = 0;
  float gradient_scale = 1.0f;
  int64_t step = 1;
};

// out[0] (f64) = sum of x^2, accumulated in f64.
struct SquaredNormArgs {
  Slice x, out;
  int64_t elements = 0;
};

// x = value.
struct FillArgs {
  Slice x;
  int64_t elements = 0;
  float value = 0;
};

class Ops {
 public:
  virtual ~Ops() = default;
  virtual absl::Status Matmul(const MatmulArgs& args) = 0;
  virtual absl::Status LayerNormForward(const LayerNormForwardArgs& args) = 0;
  virtual absl::Status LayerNormBackward(const LayerNormBackwardArgs& args) = 0;
  virtual absl::Status GeluForward(const GeluForwardArgs& args) = 0;
  virtual absl::Status GeluBackward(const GeluBackwardArgs& args) = 0;
  virtual absl::Status AttentionForward(const AttentionForwardArgs& args) = 0;
  virtual absl::Status AttentionBackward(const AttentionBackwardArgs& args) = 0;
  virtual absl::Status EmbeddingForward(const EmbeddingForwardArgs& args) = 0;
  virtual absl::Status EmbeddingBackward(const EmbeddingBackwardArgs& args) = 0;
  virtual absl::Status HeadLoss(const HeadLossArgs& args) = 0;
  virtual absl::Status Add(const AddArgs& args) = 0;
  virtual absl::Status SumRows(const SumRowsArgs& args) = 0;
  virtual absl::Status AdamW(const AdamWArgs& args) = 0;
  virtual absl::Status SquaredNorm(const SquaredNormArgs& args) = 0;
  virtual absl::Status Fill(const FillArgs& args) = 0;

  // Parameters were written since the last call: copies kept of them are stale.
  virtual void ParametersChanged() = 0;

  // Bytes of scratch and kept copies that the ops hold beside what was allocated, now.
  virtual Bytes workspace() const = 0;
};

}  // namespace medley
