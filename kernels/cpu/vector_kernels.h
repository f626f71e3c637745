#pragma once
#include <cstdint>

namespace medley {

struct AdamWStep;

// The inner loops of the CPU ops, single-threaded, compiled once for each instruction set from the same
// source. Pointers need no alignment beyond their element's. A function's results depend on its arguments and
// its instruction set alone. Where a sum runs over a row, its order is fixed.
struct VectorKernels {
  void (*gelu_forward)(const float* x, float* y, int64_t count);
  // x += added; y = gelu(x).
  void (*add_then_gelu)(float* x, const float* added, float* y, int64_t count);
  void (*gelu_backward)(const float* x, const float* dy, float* dx, int64_t count);

  // Each row of x (and dx) is `columns` gates, then as many ups. dx may be x.
  void (*swiglu_forward)(const float* x, float* y, int64_t rows, int64_t columns);
  void (*swiglu_backward)(const float* x, const float* dy, float* dx, int64_t rows, int64_t columns);

  // Over `rows` rows of `columns`.
  void (*layer_norm_forward)(const float* x, const float* gamma, const float* beta, float* y, float* mean,
                             float* rstd, int64_t rows, int64_t columns, float epsilon);
  // dx = or += (`add_dx` not 0); dgamma and dbeta +=.
  void (*layer_norm_backward)(const float* dy, const float* x, const float* gamma, const float* mean,
                              const float* rstd, float* dx, float* dgamma, float* dbeta, int64_t rows,
                              int64_t columns, int add_dx);
  void (*rms_norm_forward)(const float* x, const float* gamma, float* y, float* rstd, int64_t rows,
                           int64_t columns, float epsilon);
  // As layer_norm_backward.
  void (*rms_norm_backward)(const float* dy, const float* x, const float* gamma, const float* rstd, float* dx,
                            float* dgamma, int64_t rows, int64_t columns, int add_dx);

  // Turns `heads` heads of one position, each 2 * half long, by the angles of cosine[half] and sign *
  // sine[half].
  void (*rotary)(float* x, const float* cosine, const float* sine, int64_t heads, int64_t half, float sign);

  // Row r of `scores` (rows of `columns`) has `first + r` meaningful scores, at most `columns`. They become
  // exp(score - largest), the rest of the row 0. inverse_sum[r] = 1 / their sum, log_sum_exp[r] as it says.
  void (*softmax_rows)(float* scores, int64_t rows, int64_t columns, int64_t first, float* inverse_sum,
                       float* log_sum_exp);
  // As above, scores become probabilities exp(score - log_sum_exp[r]) and d_probability becomes
  // probability * (d_probability - delta[r]); both 0 in the rest of the row.
  void (*softmax_backward_rows)(float* scores, float* d_probability, int64_t rows, int64_t columns,
                                int64_t first, const float* log_sum_exp, const float* delta);
  // x[r] *= factor[r], rows `stride` apart.
  void (*scale_rows)(float* x, int64_t rows, int64_t columns, int64_t stride, const float* factor);
  // out[r] = a[r] . b[r], rows `stride` apart in both.
  void (*dot_rows)(const float* a, const float* b, int64_t rows, int64_t columns, int64_t stride, float* out);

  // Returns -log softmax(logits)[target].
  double (*head_loss_row)(const float* logits, int64_t vocabulary, int64_t target);
  // The same; logits become gradient_scale * (softmax(logits) - onehot(target)).
  double (*head_loss_gradient_row)(float* logits, int64_t vocabulary, int64_t target, float gradient_scale);
  // Returns the log of the sum of e^logit.
  double (*log_sum_exp_row)(const float* logits, int64_t vocabulary);
  // Logits become gradient_scale * (e^(logit - log_sum_exp) - onehot(target)); target -1: none of them.
  void (*head_gradient_row)(float* logits, int64_t vocabulary, int64_t target, float log_sum_exp,
                            float gradient_scale);

  void (*add)(const float* a, const float* b, float* c, int64_t count);
  // out[c] += sum over r of x[r * stride + c], c < columns.
  void (*sum_rows)(const float* x, int64_t rows, int64_t columns, int64_t stride, float* out);
  double (*squared_norm)(const float* x, int64_t count);
  void (*fill)(float* x, float value, int64_t count);
  // Rounded to nearest, ties to even.
  void (*to_bf16)(const float* x, uint16_t* y, int64_t count);
  void (*from_bf16)(const uint16_t* x, float* y, int64_t count);
  void (*to_f16)(const float* x, uint16_t* y, int64_t count);
  void (*from_f16)(const uint16_t* x, float* y, int64_t count);
  void (*adamw)(const AdamWStep& step, float* parameter, const float* gradient, float* m, float* v,
                int64_t count);
};

// One table an instruction set. Calling into one that the processor lacks ends the process.
extern const VectorKernels kVectorKernelsSse41;
extern const VectorKernels kVectorKernelsAvx2;
extern const VectorKernels kVectorKernelsAvx512;

}  // namespace medley
