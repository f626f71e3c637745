#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/reference/accept.h"

namespace medley {
namespace {

// One row of H * D values of part `part` (query 0, key 1, value 2) in [B,S,3,H,D], from head `head` on.
template <typename T, typename Args>
T* Row(T* qkv, const Args& args, int64_t batch, int64_t position, int64_t part, int64_t head) {
  return qkv + (((batch * args.sequence + position) * 3 + part) * args.heads + head) * args.head_size;
}

double Dot(const float* a, const float* b, int64_t count, Precision precision) {
  double sum = 0;
  for (int64_t d = 0; d < count; ++d) sum += Operand(a[d], precision) * Operand(b[d], precision);
  return sum;
}

void ForwardRow(const AttentionForwardArgs& args, int64_t batch, int64_t head, int64_t position) {
  const float* qkv = HostPointer<float>(args.qkv);
  const double scale = 1.0 / std::sqrt(static_cast<double>(args.head_size));
  const float* query = Row(qkv, args, batch, position, 0, head);
  std::vector<double> scores(position + 1);
  for (int64_t j = 0; j <= position; ++j) {
    scores[j] = scale * Dot(query, Row(qkv, args, batch, j, 1, head), args.head_size, args.precision);
  }
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double score : scores) sum += std::exp(score - largest);
  const double log_sum_exp = largest + std::log(sum);
  std::vector<double> out(args.head_size);
  for (int64_t j = 0; j <= position; ++j) {
    const double probability = Operand(static_cast<float>(std::exp(scores[j] - log_sum_exp)), args.precision);
    const float* value = Row(qkv, args, batch, j, 2, head);
    for (int64_t d = 0; d < args.head_size; ++d) out[d] += probability * Operand(value[d], args.precision);
  }
  float* to = HostPointer<float>(args.out) +
              ((batch * args.sequence + position) * args.heads + head) * args.head_size;
  for (int64_t d = 0; d < args.head_size; ++d) to[d] = static_cast<float>(out[d]);
  HostPointer<float>(args.log_sum_exp)[(batch * args.heads + head) * args.sequence + position] =
      static_cast<float>(log_sum_exp);
}

// Adds what query `position` contributes to the gradients, each [S,D] of one head.
void BackwardRow(const AttentionBackwardArgs& args, int64_t batch, int64_t head, int64_t position,
                 std::vector<double>& d_query, std::vector<double>& d_key, std::vector<double>& d_value) {
  const float* qkv = HostPointer<float>(args.qkv);
  const int64_t size = args.head_size;
  const double scale = 1.0 / std::sqrt(static_cast<double>(size));
  const int64_t out_offset = ((batch * args.sequence + position) * args.heads + head) * size;
  const float* dout = HostPointer<float>(args.dout) + out_offset;
  const float* query = Row(qkv, args, batch, position, 0, head);
  const double log_sum_exp =
      HostPointer<float>(args.log_sum_exp)[(batch * args.heads + head) * args.sequence + position];
  const double delta = Dot(dout, HostPointer<float>(args.out) + out_offset, size, Precision::kF32);
  for (int64_t j = 0; j <= position; ++j) {
    const float* key = Row(qkv, args, batch, j, 1, head);
    const double score = scale * Dot(query, key, size, args.precision);
    const double probability = std::exp(score - log_sum_exp);
    const double d_probability = Dot(dout, Row(qkv, args, batch, j, 2, head), size, args.precision);
    const double d_score = Operand(static_cast<float>(probability * (d_probability - delta)), args.precision);
    const double rounded = Operand(static_cast<float>(probability), args.precision);
    for (int64_t d = 0; d < size; ++d) {
      d_query[position * size + d] += scale * d_score * Operand(key[d], args.precision);
      d_key[j * size + d] += scale * d_score * Operand(query[d], args.precision);
      d_value[j * size + d] += rounded * Operand(dout[d], args.precision);
    }
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
  float* dqkv = HostPointer<float>(args.dqkv);
  const int64_t elements = args.sequence * args.head_size;
  for (int64_t b = 0; b < args.batch; ++b) {
    for (int64_t h = 0; h < args.heads; ++h) {
      std::vector<double> gradients[3] = {std::vector<double>(elements), std::vector<double>(elements),
                                          std::vector<double>(elements)};
      for (int64_t s = 0; s < args.sequence; ++s) {
        BackwardRow(args, b, h, s, gradients[0], gradients[1], gradients[2]);
      }
      for (int64_t part = 0; part < 3; ++part) {
        for (int64_t s = 0; s < args.sequence; ++s) {
          float* to = Row(dqkv, args, b, s, part, h);
          for (int64_t d = 0; d < args.head_size; ++d) {
            to[d] = static_cast<float>(gradients[part][s * args.head_size + d]);
          }
        }
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace medley
