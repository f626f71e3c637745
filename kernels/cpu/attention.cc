#include <omp.h>

#include <atomic>
#include <cmath>
#include <stdexcept>

#include "kernels/cpu/accept.h"

// Blocked causal attention: a block of queries against the keys up to its end, so that the scores of one
// block only are in memory and what the mask hides is not computed, but for the block's own corner.
namespace medley {
namespace {

constexpr int64_t kBlockRows = 64;

// One query head of one sequence with the key-value head it attends to: pointers to their first rows, and the
// distances between rows.
struct Head {
  const float* query;
  const float* key;
  const float* value;
  int64_t qkv_stride;
  int64_t out_stride;
  int64_t sequence, size;
  float scale;
};

// Floats from the start of qkv (or dqkv) to head `head`, of all the heads in a row, of a sequence's first
// row.
template <typename Args>
int64_t HeadOffset(const Args& args, int64_t batch, int64_t head) {
  return (batch * args.sequence * (args.heads + 2 * args.key_value_heads) + head) * args.head_size;
}

template <typename Args>
Head MakeHead(const Args& args, int64_t batch, int64_t head) {
  const float* qkv = HostPointer<float>(args.qkv);
  const int64_t key_head = args.heads + head / (args.heads / args.key_value_heads);
  return {.query = qkv + HeadOffset(args, batch, head),
          .key = qkv + HeadOffset(args, batch, key_head),
          .value = qkv + HeadOffset(args, batch, key_head + args.key_value_heads),
          .qkv_stride = (args.heads + 2 * args.key_value_heads) * args.head_size,
          .out_stride = args.heads * args.head_size,
          .sequence = args.sequence,
          .size = args.head_size,
          .scale = 1.0f / std::sqrt(static_cast<float>(args.head_size))};
}

// scores[rows, keys] = scale * query key^T, for the queries from `first` on.
void Scores(const Head& head, int64_t first, int64_t rows, int64_t keys, float* scores) {
  MultiplyF32({.m = rows,
               .n = keys,
               .k = head.size,
               .a = {head.query + first * head.qkv_stride, head.qkv_stride},
               .b = {head.key, head.qkv_stride, Transpose::kYes},
               .c = scores,
               .c_stride = keys,
               .scale = head.scale});
}

// `scratch`: kBlockRows * (sequence + 1) floats.
void ForwardHead(const VectorKernels& kernels, const Head& head, float* out, float* log_sum_exp,
                 float* scratch) {
  float* scores = scratch + kBlockRows;
  for (int64_t first = 0; first < head.sequence; first += kBlockRows) {
    const int64_t rows = std::min(kBlockRows, head.sequence - first), keys = first + rows;
    Scores(head, first, rows, keys, scores);
    kernels.softmax_rows(scores, rows, keys, first + 1, scratch, log_sum_exp + first);
    float* block_out = out + first * head.out_stride;
    MultiplyF32({.m = rows,
                 .n = head.size,
                 .k = keys,
                 .a = {scores, keys},
                 .b = {head.value, head.qkv_stride},
                 .c = block_out,
                 .c_stride = head.out_stride});
    kernels.scale_rows(block_out, rows, head.size, head.out_stride, scratch);
  }
}

// What the backward pass of one query head reads beside Head, and what it writes.
struct HeadGradient {
  const float* out;
  const float* dout;
  const float* log_sum_exp;
  float* d_query;
  float* d_key;
  float* d_value;
  Store store_key_value;  // kAdd: another query head has written d_key and d_value
};

// `scratch`: kBlockRows * (2 * sequence + 1) floats.
void BackwardHead(const VectorKernels& kernels, const Head& head, const HeadGradient& gradient,
                  float* scratch) {
  float* delta = scratch;
  float* probability = scratch + kBlockRows;
  float* d_score = probability + kBlockRows * head.sequence;
  const int64_t blocks = (head.sequence + kBlockRows - 1) / kBlockRows;
  // From the last block, which has all keys and so writes all of dkey and dvalue; the others add to them.
  for (int64_t block = blocks - 1; block >= 0; --block) {
    const int64_t first = block * kBlockRows;
    const int64_t rows = std::min(kBlockRows, head.sequence - first), keys = first + rows;
    const Store store = block == blocks - 1 ? gradient.store_key_value : Store::kAdd;
    const Matrix block_dout{gradient.dout + first * head.out_stride, head.out_stride};
    kernels.dot_rows(block_dout.data, gradient.out + first * head.out_stride, rows, head.size,
                     head.out_stride, delta);
    Scores(head, first, rows, keys, probability);
    MultiplyF32({.m = rows,
                 .n = keys,
                 .k = head.size,
                 .a = block_dout,
                 .b = {head.value, head.qkv_stride, Transpose::kYes},
                 .c = d_score,
                 .c_stride = keys});
    kernels.softmax_backward_rows(probability, d_score, rows, keys, first + 1, gradient.log_sum_exp + first,
                                  delta);
    MultiplyF32({.m = rows,
                 .n = head.size,
                 .k = keys,
                 .a = {d_score, keys},
                 .b = {head.key, head.qkv_stride},
                 .c = gradient.d_query + first * head.qkv_stride,
                 .c_stride = head.qkv_stride,
                 .scale = head.scale});
    MultiplyF32({.m = keys,
                 .n = head.size,
                 .k = rows,
                 .a = {d_score, keys, Transpose::kYes},
                 .b = {head.query + first * head.qkv_stride, head.qkv_stride},
                 .c = gradient.d_key,
                 .c_stride = head.qkv_stride,
                 .scale = head.scale,
                 .store = store});
    MultiplyF32({.m = keys,
                 .n = head.size,
                 .k = rows,
                 .a = {probability, keys, Transpose::kYes},
                 .b = block_dout,
                 .c = gradient.d_value,
                 .c_stride = head.qkv_stride,
                 .store = store});
  }
}

// Calls work(batch, head, scratch) for each of `heads` heads of every sequence, one thread each; `scratch`
// holds `scratch_floats` a thread. An exception may not leave a parallel region, so it is thrown again after
// it.
template <typename Work>
void ForEachHead(int64_t batch, int64_t heads, float* scratch, int64_t scratch_floats, const Work& work) {
  std::atomic<bool> failed = false;
  const int64_t count = batch * heads;
#pragma omp parallel for schedule(dynamic) if (count > 1)
  for (int64_t i = 0; i < count; ++i) {
    try {
      work(i / heads, i % heads, scratch + omp_get_thread_num() * scratch_floats);
    } catch (const std::exception&) {
      failed = true;
    }
  }
  if (failed) throw std::runtime_error("a matmul failed");
}

}  // namespace

absl::Status CpuOps::AttentionForward(const AttentionForwardArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  return Run("AttentionForward", [&] {
    const int64_t scratch_floats = kBlockRows * (args.sequence + 1);
    ForEachHead(args.batch, args.heads, scratch_.Floats(threads_ * scratch_floats), scratch_floats,
                [&](int64_t batch, int64_t h, float* scratch) {
                  const Head head = MakeHead(args, batch, h);
                  float* out =
                      HostPointer<float>(args.out) + batch * args.sequence * head.out_stride + h * head.size;
                  float* log_sum_exp =
                      HostPointer<float>(args.log_sum_exp) + (batch * args.heads + h) * args.sequence;
                  ForwardHead(kernels_, head, out, log_sum_exp, scratch);
                });
  });
}

// A thread takes a key-value head with all query heads that share it, in order: its gradient is one sum.
absl::Status CpuOps::AttentionBackward(const AttentionBackwardArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  return Run("AttentionBackward", [&] {
    const int64_t scratch_floats = kBlockRows * (2 * args.sequence + 1);
    ForEachHead(args.batch, args.key_value_heads, scratch_.Floats(threads_ * scratch_floats), scratch_floats,
                [&](int64_t batch, int64_t k, float* scratch) {
                  const int64_t group = args.heads / args.key_value_heads;
                  float* dqkv = HostPointer<float>(args.dqkv);
                  for (int64_t h = k * group; h < (k + 1) * group; ++h) {
                    const Head head = MakeHead(args, batch, h);
                    const int64_t out_offset = batch * args.sequence * head.out_stride + h * head.size;
                    BackwardHead(
                        kernels_, head,
                        {.out = HostPointer<float>(args.out) + out_offset,
                         .dout = HostPointer<float>(args.dout) + out_offset,
                         .log_sum_exp =
                             HostPointer<float>(args.log_sum_exp) + (batch * args.heads + h) * args.sequence,
                         .d_query = dqkv + HeadOffset(args, batch, h),
                         .d_key = dqkv + HeadOffset(args, batch, args.heads + k),
                         .d_value = dqkv + HeadOffset(args, batch, args.heads + args.key_value_heads + k),
                         .store_key_value = h == k * group ? Store::kOverwrite : Store::kAdd},
                        scratch);
                  }
                });
  });
}

}  // namespace medley
