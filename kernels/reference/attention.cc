#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/reference/accept.h"

namespace medley {
namespace {

// A row of qkv is heads: the queries', then the keys', then the values'.
template <typename T, typename Args>
T* HeadAt(T* qkv, const Args& args, int64_t batch, int64_t position, int64_t head) {
  const int64_t row_heads = args.heads + 2 * args.key_value_heads;
  return qkv + ((batch * args.sequence + position) * row_heads + head) * args.head_size;
}

// Where query head `head` finds its key; its value is `key_value_heads` further.
template <typename Args>
int64_t KeyHead(const Args& args, int64_t head) {
  return args.heads + head / (args.heads / args.key_value_heads);
}

double Dot(const float* a, const float* b, int64_t count, Precision precision) {
  double sum = 0;
  for (int64_t d = 0; d < count; ++d) sum += Operand(a[d], precision) * Operand(b[d], precision);
  return sum;
}

void ForwardRow(const AttentionForwardArgs& args, int64_t batch, int64_t head, int64_t position) {
  const float* qkv = HostPointer<float>(args.qkv);
  const double scale = 1.0 / std::sqrt(static_cast<double>(args.head_size));
  const float* query = HeadAt(qkv, args, batch, position, head);
  const int64_t key_head = KeyHead(args, head), value_head = key_head + args.key_value_heads;
  std::vector<double> scores(position + 1);
  for (int64_t j = 0; j <= position; ++j) {
    scores[j] = scale * Dot(query, HeadAt(qkv, args, batch, j, key_head), args.head_size, args.precision);
  }
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double score : scores) sum += std::exp(score - largest);
  const double log_sum_exp = largest + std::log(sum);
  std::vector<double> out(args.head_size);
  for (int64_t j = 0; j <= position; ++j) {
    const double probability = Operand(static_cast<float>(std::exp(scores[j] - log_sum_exp)), args.precision);
    const float* value = HeadAt(qkv, args, batch, j, value_head);
    for (int64_t d = 0; d < args.head_size; ++d) out[d] += probability * Operand(value[d], args.precision);
  }
  float* to = HostPointer<float>(args.out) +
              ((batch * args.sequence + position) * args.heads + head) * args.head_size;
  for (int64_t d = 0; d < args.head_size; ++d) to[d] = static_cast<float>(out[d]);
  HostPointer<float>(args.log_sum_exp)[(batch * args.heads + head) * args.sequence + position] =
      static_cast<float>(log_sum_exp);
}

// Adds what query `position` of `head` contributes to the gradients of the query, its key and its value, each
// [S,D].
void BackwardRow(const AttentionBackwardArgs& args, int64_t batch, int64_t head, int64_t position,
                 std::vector<double>& d_query, std::vector<double>& d_key, std::vector<double>& d_value) {
  const float* qkv = HostPointer<float>(args.qkv);
  const int64_t size = args.head_size;
  const double scale = 1.0 / std::sqrt(static_cast<double>(size));
  const int64_t out_offset = ((batch * args.sequence + position) * args.heads + head) * size;
  const float* dout = HostPointer<float>(args.dout) + out_offset;
  const float* query = HeadAt(qkv, args, batch, position, head);
  const int64_t key_head = KeyHead(args, head), value_head = key_head + args.key_value_heads;
  const double log_sum_exp =
      HostPointer<float>(args.log_sum_exp)[(batch * args.heads + head) * args.sequence + position];
  const double delta = Dot(dout, HostPointer<float>(args.out) + out_offset, size, Precision::kF32);
  for (int64_t j = 0; j <= position; ++j) {
    const float* key = HeadAt(qkv, args, batch, j, key_head);
    const double score = scale * Dot(query, key, size, args.precision);
    const double probability = std::exp(score - log_sum_exp);
    const double d_probability = Dot(dout, HeadAt(qkv, args, batch, j, value_head), size, args.precision);
    const double d_score = Operand(static_cast<float>(probability * (d_probability - delta)), args.precision);
    const double rounded = Operand(static_cast<float>(probability), args.precision);
    for (int64_t d = 0; d < size; ++d) {
      d_query[position * size + d] += scale * d_score * Operand(key[d], args.precision);
      d_key[j * size + d] += scale * d_score * Operand(query[d], args.precision);
      d_value[j * size + d] += rounded * Operand(dout[d], args.precision);
    }
  }
}

void StoreHead(const AttentionBackwardArgs& args, int64_t batch, int64_t head,
               const std::vector<double>& gradient) {
  for (int64_t s = 0; s < args.sequence; ++s) {
    float* to = HeadAt(HostPointer<float>(args.dqkv), args, batch, s, head);
    for (int64_t d = 0; d < args.head_size; ++d) to[d] = static_cast<float>(gradient[s * args.head_size + d]);
  }
}

}  // namespace

absl::Status ReferenceOps::AttentionForward(const AttentionForwardArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  for (int64_t b = 0; b < args.batch; ++b) {
    for (int64_t h = 0; h < args.heads; ++h) {
      for (int64_t s = 0; s < args.sequence; ++s) ForwardRow(args, b, h, s);
    }
  }
  return absl::OkStatus();
}

absl::Status ReferenceOps::AttentionBackward(const AttentionBackwardArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  const int64_t elements = args.sequence * args.head_size;
  for (int64_t b = 0; b < args.batch; ++b) {
    for (int64_t k = 0; k < args.key_value_heads; ++k) {
      std::vector<double> d_key(elements), d_value(elements);
      const int64_t group = args.heads / args.key_value_heads;
      for (int64_t h = k * group; h < (k + 1) * group; ++h) {
        std::vector<double> d_query(elements);
        for (int64_t s = 0; s < args.sequence; ++s) BackwardRow(args, b, h, s, d_query, d_key, d_value);
        StoreHead(args, b, h, d_query);
      }
      StoreHead(args, b, args.heads + k, d_key);
      StoreHead(args, b, args.heads + args.key_value_heads + k, d_value);
    }
  }
  return absl::OkStatus();
}

}  // namespace medley
