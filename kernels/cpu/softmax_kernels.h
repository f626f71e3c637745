#pragma once
#include "kernels/cpu/vector_types.h"

// Softmax: of attention's scores and of the head's logits.
// Functions of std are called through C's. The rules at the top of vector_types.h hold here too.
extern "C" double log(double) noexcept;

namespace medley {
namespace {

float LargestOf(const float* x, int64_t count) {
  Floats first = Broadcast(x[0]), second = first;
  int64_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    first = Max(first, Load(x + i));
    second = Max(second, Load(x + i + kLanes));
  }
  for (; i + kLanes <= count; i += kLanes) first = Max(first, Load(x + i));
  if (i < count) first = Max(first, LoadPart(x + i, count - i, x[0]));
  return Largest(Max(first, second));
}

// Replaces x by e^(x - largest) and returns the sum.
float ExponentiateAndSum(float* x, int64_t count, float largest) {
  Floats sum{};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Floats e = Exp(Load(x + i) - largest);
    Store(x + i, e);
    sum += e;
  }
  float total = Sum(sum);
  if (i < count) {
    const Floats e = Exp(LoadPart(x + i, count - i, largest) - largest);
    StorePart(x + i, e, count - i);
    for (int64_t j = i; j < count; ++j) total += e[j - i];
  }
  return total;
}

void SoftmaxRows(float* scores, int64_t rows, int64_t columns, int64_t first, float* inverse_sum,
                 float* log_sum_exp) {
  for (int64_t r = 0; r < rows; ++r, scores += columns) {
    const int64_t extent = first + r < columns ? first + r : columns;
    const float largest = LargestOf(scores, extent);
    const float sum = ExponentiateAndSum(scores, extent, largest);
    for (int64_t c = extent; c < columns; ++c) scores[c] = 0;
    inverse_sum[r] = 1.0f / sum;
    log_sum_exp[r] = static_cast<float>(largest + log(sum));
  }
}

void SoftmaxBackwardRows(float* scores, float* d_probability, int64_t rows, int64_t columns, int64_t first,
                         const float* log_sum_exp, const float* delta) {
  for (int64_t r = 0; r < rows; ++r, scores += columns, d_probability += columns) {
    const int64_t extent = first + r < columns ? first + r : columns;
    const float shift = log_sum_exp[r], minus = delta[r];
    int64_t c = 0;
    for (; c + kLanes <= extent; c += kLanes) {
      const Floats probability = Exp(Load(scores + c) - shift);
      Store(scores + c, probability);
      Store(d_probability + c, probability * (Load(d_probability + c) - minus));
    }
    if (c < extent) {
      const Floats probability = Exp(LoadPart(scores + c, extent - c, 0.0f) - shift);
      const Floats d = LoadPart(d_probability + c, extent - c, 0.0f);
      StorePart(scores + c, probability, extent - c);
      StorePart(d_probability + c, probability * (d - minus), extent - c);
    }
    for (c = extent; c < columns; ++c) scores[c] = d_probability[c] = 0;
  }
}

// Blocks this long are summed in f32, their sums in f64: a vocabulary is too long for f32 alone.
constexpr int64_t kSumBlock = 2048;

double SumOfExponentials(const float* logits, int64_t vocabulary, float largest) {
  double sum = 0;
  for (int64_t i = 0; i < vocabulary; i += kSumBlock) {
    const int64_t count = vocabulary - i < kSumBlock ? vocabulary - i : kSumBlock;
    sum += SumOver(logits + i, count, [largest](Floats v) { return Exp(v - largest); });
  }
  return sum;
}

double HeadLossRow(const float* logits, int64_t vocabulary, int64_t target) {
  const float largest = LargestOf(logits, vocabulary);
  return log(SumOfExponentials(logits, vocabulary, largest)) +
         (static_cast<double>(largest) - logits[target]);
}

double LogSumExpRow(const float* logits, int64_t vocabulary) {
  const float largest = LargestOf(logits, vocabulary);
  return log(SumOfExponentials(logits, vocabulary, largest)) + largest;
}

void HeadGradientRow(float* logits, int64_t vocabulary, int64_t target, float log_sum_exp,
                     float gradient_scale) {
  MapUnary(logits, logits, vocabulary,
           [log_sum_exp, gradient_scale](Floats v) { return Exp(v - log_sum_exp) * gradient_scale; });
  if (target >= 0) logits[target] -= gradient_scale;
}

double HeadLossGradientRow(float* logits, int64_t vocabulary, int64_t target, float gradient_scale) {
  const float largest = LargestOf(logits, vocabulary);
  const double margin = static_cast<double>(largest) - logits[target];
  double sum = 0;
  for (int64_t i = 0; i < vocabulary; i += kSumBlock) {
    const int64_t count = vocabulary - i < kSumBlock ? vocabulary - i : kSumBlock;
    sum += ExponentiateAndSum(logits + i, count, largest);
  }
  const float by = static_cast<float>(gradient_scale / sum);
  MapUnary(logits, logits, vocabulary, [by](Floats v) { return v * by; });
  logits[target] -= gradient_scale;
  return log(sum) + margin;
}

}  // namespace
}  // namespace medley
