#pragma once

// Includes nothing on purpose: it is compiled for several instruction sets (kernels/cpu/vector_types.h).
namespace medley {

struct AdamWArgs;
struct AdamWRange;

// The scalars of one AdamW step over one of its ranges, rounded to f32 once, so that every backend computes
// with the same bits. The element loop, each operation rounded to f32:
//   g = gradient_scale * gradient
//   m = (beta1 * m) + (one_minus_beta1 * g)
//   v = (beta2 * v) + (one_minus_beta2 * (g * g))
//   p = p - (learning_rate * (((m / correction1) / (sqrt(v / correction2) + epsilon)) + (weight_decay * p)))
struct AdamWStep {
  float gradient_scale;
  float beta1, one_minus_beta1;  // 1 - beta1 subtracted in f32
  float beta2, one_minus_beta2;
  float correction1;  // 1 - beta1^step, in f64, then rounded
  float correction2;
  float epsilon, learning_rate, weight_decay;
};

AdamWStep MakeAdamWStep(const AdamWArgs& args, const AdamWRange& range);

}  // namespace medley
