#pragma once
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/base/dtype.h"
#include "runtime/device/device_queue.h"
#include "runtime/device/op_list.h"

// The ops that a backend provides for GPT-2 and Llama: what each computes, over which shapes, and what it may
// assume. op_list.h names them all; op_table.h has the fields of each, and what it does with them.
//
// All tensors are row-major, contiguous and f32 unless said otherwise; those that op_table.h calls typed
// (activations, their gradients, operands of products) are of the type that their slice says, f32, bf16 or f16:
// computed with in f32, rounded where they are stored. Legend: B sequences, S positions, C
// hidden size, H query heads, K key-value heads (K divides H), D size of a head, F inner size of the MLP, V
// vocabulary. Sizes may be zero where a loop over them makes sense; then nothing is written. Unless an op
// says otherwise, outputs must not overlap inputs and are overwritten; "+=" marks those that are added to.
//
// Ops are submitted to the device's queue, in order. They return an error only for what can be
// seen at submission (a slice past the end of its buffer: OutOfRange; a shape or precision that this kernel
// does not do: Unimplemented, with the reason, nothing was submitted; no room left for scratch:
// ResourceExhausted); later failures poison the queue.
namespace medley {

// `elements` elements of `buffer` from byte `offset`. Does not own the buffer.
struct Slice {
  Buffer* buffer = nullptr;
  int64_t offset_bytes = 0;
  int64_t elements = 0;
  Dtype dtype = Dtype::kF32;  // of typed operands; ids are i32 and sums f64 whatever it says

  // `count` elements from element `first` of this slice.
  Slice Sub(int64_t first, int64_t count) const {
    return {buffer, offset_bytes + first * SizeOf(dtype).value, count, dtype};
  }
  bool empty() const { return buffer == nullptr; }
  friend bool operator==(const Slice&, const Slice&) = default;
};

enum class Transpose : uint8_t { kNo, kYes };
enum class Store : uint8_t { kOverwrite, kAdd };

// Whether an operand is a parameter, that is, changes only before ParametersChanged(). A backend
// may keep a packed or converted copy of it.
enum class Constness : uint8_t { kVaries, kParameter };

// What a matmul does to its result before it stores it.
enum class Epilogue : uint8_t {
  kNone,
  kGelu,          // pre_activation = result; c = gelu(result)
  kGeluGradient,  // c = result * gelu'(pre_activation)
};

// c[m,n] = op(a)[m,k] op(b)[k,n] (+ bias[n] on every row), or += with Store::kAdd.
// op(x) is x or its transpose: with kYes, `a` is stored [k,m] and `b` is stored [n,k].
struct MatmulArgs {
  Slice a, b, c;
  int64_t m = 0, n = 0, k = 0;
  Transpose transpose_a = Transpose::kNo;
  Transpose transpose_b = Transpose::kNo;
  Slice bias;  // empty: none; otherwise as Constness::kParameter
  Store store = Store::kOverwrite;
  Precision precision = Precision::kF32;
  Constness b_constness = Constness::kVaries;
  Epilogue epilogue = Epilogue::kNone;  // others only with Store::kOverwrite
  Slice pre_activation;                 // [m,n]; out of kGelu, in of kGeluGradient, empty with kNone
};

// y[r,:] = (x[r,:] - mean[r]) * rstd[r] * gamma + beta, with mean and rstd = 1/sqrt(variance + epsilon) of
// each row.
struct LayerNormForwardArgs {
  Slice x, gamma, beta;  // [rows, columns], [columns], [columns]
  Slice y, mean, rstd;   // out: [rows, columns], [rows], [rows]
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

// y[r,:] = x[r,:] * rstd[r] * gamma, with rstd = 1/sqrt(mean of x^2 + epsilon) of each row (Zhang & Sennrich
// 2019).
struct RmsNormForwardArgs {
  Slice x, gamma;  // [rows, columns], [columns]
  Slice y, rstd;   // out: [rows, columns], [rows]
  int64_t rows = 0, columns = 0;
  float epsilon = 1e-5f;
};

// dx (+)= gradient through RmsNormForward; dgamma +=.
struct RmsNormBackwardArgs {
  Slice dy, x, gamma, rstd;
  Slice dx;      // stored as `store_dx` says; may be the same slice as dy only with kOverwrite
  Slice dgamma;  // +=
  int64_t rows = 0, columns = 0;
  Store store_dx = Store::kOverwrite;
};

// Rotary position embedding (Su et al. 2021) in place, in the half-split order of Hugging Face's Llama: of
// each head's row v at position s, v[i] and v[i + D/2] turn by the angle whose cosine and sine are
// cosine[s,i] and sine[s,i]:
//   v[i], v[i+D/2] = v[i] cos - v[i+D/2] sin, v[i+D/2] cos + v[i] sin.
// kBackward turns by the negative angle, which is the gradient. Turns the first `rotated_heads` of the
// `row_heads` heads of each row; the others stay.
enum class Rotation : uint8_t { kForward, kBackward };
struct RotaryArgs {
  Slice x;             // in and out: [B,S,row_heads,D], D even
  Slice cosine, sine;  // [>=S, D/2]
  int64_t batch = 0, sequence = 0, rotated_heads = 0, row_heads = 0, head_size = 0;
  Rotation rotation = Rotation::kForward;
};

// y = silu(gate) * up, silu(g) = g / (1 + e^-g), where each row of x is gate then up (Shazeer 2020).
struct SwiGluForwardArgs {
  Slice x, y;                     // [rows, 2F], out: [rows, F]
  int64_t rows = 0, columns = 0;  // columns: F
};
struct SwiGluBackwardArgs {
  Slice x, dy, dx;  // [rows, 2F], [rows, F], out: [rows, 2F]; dx may be x
  int64_t rows = 0, columns = 0;
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

// Causal softmax attention, scores scaled by 1/sqrt(D); query head h attends to key-value head h / (H / K)
// (grouped-query, Ainslie et al. 2023; K = H is GPT-2's). A row of qkv is H query heads, then K key heads,
// then K value heads. Uses at most O(S * block) memory a head, never S x S for the batch.
struct AttentionForwardArgs {
  Slice qkv;          // [B,S,H+2K,D]
  Slice out;          // out: [B,S,H,D]
  Slice log_sum_exp;  // out: [B,H,S], of the scaled scores
  int64_t batch = 0, sequence = 0, heads = 0, key_value_heads = 0, head_size = 0;
  Precision precision = Precision::kF32;
};
struct AttentionBackwardArgs {
  Slice qkv, out, log_sum_exp, dout;
  Slice dqkv;  // out: [B,S,H+2K,D]
  int64_t batch = 0, sequence = 0, heads = 0, key_value_heads = 0, head_size = 0;
  Precision precision = Precision::kF32;
};

// y[b,s,:] = token_embedding[tokens[b,s] - first_token,:] (+ position_embedding[s,:]). The table has the
// rows of the tokens [first_token, first_token + V), which need not be the whole vocabulary: of any other
// token the row is zero, and its gradient goes nowhere. Tokens are i32, 0 or more.
struct EmbeddingForwardArgs {
  Slice tokens, token_embedding, position_embedding;  // [B,S] i32, [V,C], [>=S,C] or empty: none
  Slice y;                                            // out: [B,S,C]
  int64_t batch = 0, sequence = 0, columns = 0;
  int64_t first_token = 0, vocabulary = 0;  // vocabulary: V, 1 or more if there are tokens
};
struct EmbeddingBackwardArgs {
  Slice tokens, dy;
  Slice d_token_embedding,
      d_position_embedding;  // +=, the latter empty as above (tokens in order, so the sum order is fixed)
  int64_t batch = 0, sequence = 0, columns = 0;
  int64_t first_token = 0, vocabulary = 0;
};

// Logits = x weight^T, never stored whole; loss is the sum over rows of -log softmax(logits)[target].
// With gradients: dx = gradient_scale * d loss / d x, dweight += gradient_scale * d loss / d weight.
struct HeadLossArgs {
  Slice x, weight, targets;  // [rows,C], [V,C] (as Constness::kParameter), [rows] i32
  Slice loss_sum;            // out: one f64, += (the caller zeroes it)
  Slice dx, dweight;         // both empty: loss only
  int64_t rows = 0, columns = 0, vocabulary = 0;
  float gradient_scale = 1.0f;
  Precision precision = Precision::kF32;
};

// A head whose vocabulary several ranks share, each with the rows of weight of the tokens [first_token,
// first_token + V); targets are ids of the whole vocabulary. The logits stay where they are, never stored whole
// as in HeadLoss: each rank's HeadStatistics go to all, JoinHeadStatistics makes of them those of the whole
// vocabulary and the loss, and HeadGradient each rank's part of the gradients. With one rank that is HeadLoss.
//
// Of this rank's logits, x weight^T: log_sum_exp[r] = log of the sum of e^logit; target_logit[r] = that of the
// target, 0 if another rank has it.
struct HeadStatisticsArgs {
  Slice x, weight, targets;         // [rows,C], [V,C] (as Constness::kParameter), [rows] i32
  Slice log_sum_exp, target_logit;  // out: [rows], [rows]
  int64_t rows = 0, columns = 0;
  int64_t first_token = 0, vocabulary = 0;  // vocabulary: V, 1 or more if there are rows
  Precision precision = Precision::kF32;
};

// log_sum_exp[r] = log of the sum of e^s over the members' s = statistics[member,r]; loss_sum += sum over rows
// of log_sum_exp[r] - statistics[members,r], the targets' logits, which are already summed over the members.
struct JoinHeadStatisticsArgs {
  Slice statistics;               // [members+1,rows]: log_sum_exp of each member, then the targets' logits
  Slice log_sum_exp;              // out: [rows]
  Slice loss_sum;                 // out: one f64, +=, or empty: another rank counts the loss
  int64_t members = 0, rows = 0;  // members: 1 or more if there are rows
};

// With dlogits = gradient_scale * (e^(logit - log_sum_exp) - (1 if it is the target's)) of this rank's logits:
// dx = dlogits weight, which is this rank's part of a sum over the ranks; dweight += dlogits^T x.
struct HeadGradientArgs {
  Slice x, weight, targets;  // as above
  Slice log_sum_exp;         // [rows], of the whole vocabulary
  Slice dx, dweight;         // out: [rows,C]; [V,C] +=
  int64_t rows = 0, columns = 0;
  int64_t first_token = 0, vocabulary = 0;
  float gradient_scale = 1.0f;
  Precision precision = Precision::kF32;
};

// c = a + b; c may be a or b.
struct AddArgs {
  Slice a, b, c;
  int64_t elements = 0;
};

// x *= factor.
struct ScaleArgs {
  Slice x;
  int64_t elements = 0;
  float factor = 1;
};

// y = x, rounded (nearest even) or widened from the type of x to that of y. Equal types copy the bits.
struct CastArgs {
  Slice x, y;
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
// Every operation rounds to f32 on its own (no fused multiply-add), so that every backend gives the same
// bits. One call takes all tensors of an arena: `ranges` are disjoint and ascending, what lies between them
// is not touched.
struct AdamWRange {
  int64_t first = 0, elements = 0;  // of each of the four slices
  float weight_decay = 0;
};
struct AdamWArgs {
  Slice parameter, gradient, m, v;      // each reaches to the last range's end
  absl::Span<const AdamWRange> ranges;  // read at submission
  float learning_rate = 0, beta1 = 0.9f, beta2 = 0.95f, epsilon = 1e-8f;
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

// Scratch that a program has set aside for its ops; empty: none.
struct OpScratch {
  Slice conversions;  // what narrow tensors are widened in
  Slice logits;       // of a head
};

// Bytes that ops hold on their device, beside scratch that was set aside for them.
struct OpHoldings {
  Bytes scratch;
  Bytes copies;  // of parameters
};

class Ops {
 public:
  virtual ~Ops() = default;

  // One for each op of op_list.h, as in absl::Status Matmul(const MatmulArgs& args).
#define MEDLEY_DECLARE_OP(name) virtual absl::Status name(const name##Args& args) = 0;
  MEDLEY_EACH_OP(MEDLEY_DECLARE_OP)
#undef MEDLEY_DECLARE_OP

  // Parameters were written since the last call: copies kept of them are stale.
  virtual void ParametersChanged() = 0;

  // Parameters are about to go: no copies of any are kept.
  virtual void ForgetParameters() { ParametersChanged(); }

  // Ops submitted from now on may use `scratch`, whatever lies in it, until the next call. Of what they need and
  // do not find there they allocate what they then hold.
  virtual void UseScratch(const OpScratch& scratch) {}

  // What they hold now of their queue's memory, which counts it.
  virtual OpHoldings held() const { return {}; }
};

}  // namespace medley
