#include "runtime/ir/model/model_share.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace medley {
namespace {

IndexRange EvenPart(int size, int degree, int member) {
  const int even = size / degree, rest = size % degree;
  const int first = member * even + std::min(member, rest);
  return {first, first + even + (member < rest ? 1 : 0)};
}

}  // namespace

std::string SharingObjection(const ModelConfig& config, int degree) {
  const auto objection = [&](int has, const char* what) {
    return absl::StrCat(degree, "; the model has ", has, " ", what, ", so at most ", has);
  };
  if (config.key_value_head_count() < degree)
    return objection(config.key_value_head_count(), "key-value heads");
  if (config.feed_forward < degree) return objection(config.feed_forward, "feed-forward columns");
  if (config.vocabulary < degree) return objection(config.vocabulary, "vocabulary rows");
  return "";
}

std::vector<ModelShare> EvenShares(const ModelConfig& config, int degree) {
  std::vector<ModelShare> shares;
  for (int member = 0; member < degree; ++member) {
    shares.push_back({EvenPart(config.key_value_head_count(), degree, member),
                      EvenPart(config.feed_forward, degree, member),
                      EvenPart(config.vocabulary, degree, member)});
  }
  return shares;
}

ModelShare WholeModel(const ModelConfig& config) {
  return {{0, config.key_value_head_count()}, {0, config.feed_forward}, {0, config.vocabulary}};
}

ModelShare AtOrigin(const ModelShare& share) {
  return {{0, share.key_value_heads.size()}, {0, share.feed_forward.size()}, {0, share.vocabulary.size()}};
}

ModelConfig LocalModel(const ModelConfig& config, const ModelShare& share) {
  if (share == WholeModel(config)) return config;
  ModelConfig local = config;
  local.head_size = config.size_of_head();
  local.heads = share.key_value_heads.size() * (config.heads / config.key_value_head_count());
  if (config.key_value_heads > 0) local.key_value_heads = share.key_value_heads.size();
  local.feed_forward = share.feed_forward.size();
  local.vocabulary = share.vocabulary.size();
  return local;
}

CutShape CutShapeOf(const ParameterSpec& tensor) {
  CutShape shape;
  for (int axis = 0; axis < static_cast<int>(tensor.shape.size()); ++axis) {
    int64_t& size = axis < tensor.cut_axis   ? shape.outer
                    : axis > tensor.cut_axis ? shape.inner
                                             : shape.indices;
    size *= tensor.shape[axis];
  }
  return shape;
}

std::vector<IndexRange> HeldIndices(const ModelConfig& config, const ParameterSpec& tensor,
                                    const ModelShare& share) {
  const int D = config.size_of_head(), K = config.key_value_head_count(), group = config.heads / K;
  const IndexRange keys = {share.key_value_heads.first * D, share.key_value_heads.end * D};
  const IndexRange queries = {keys.first * group, keys.end * group};
  switch (tensor.cut) {
    case TensorCut::kNone:
      break;
    case TensorCut::kQueryHeads:
      return {queries};
    case TensorCut::kKeyValueHeads:
      return {keys};
    case TensorCut::kJoinedHeads: {
      const int after_queries = config.heads * D, after_keys = after_queries + K * D;
      return {queries,
              {after_queries + keys.first, after_queries + keys.end},
              {after_keys + keys.first, after_keys + keys.end}};
    }
    case TensorCut::kFeedForward:
      return {share.feed_forward};
    case TensorCut::kVocabulary:
      return {share.vocabulary};
  }
  return {};
}

std::vector<HeldRun> HeldRuns(const ModelConfig& config, const ParameterSpec& tensor,
                              const ModelShare& share) {
  if (tensor.cut == TensorCut::kNone) return {{0, 0, tensor.elements}};
  const CutShape shape = CutShapeOf(tensor);
  const std::vector<IndexRange> held = HeldIndices(config, tensor, share);
  std::vector<HeldRun> runs;
  int64_t next = 0;
  for (int64_t o = 0; o < shape.outer; ++o) {
    for (const IndexRange& range : held) {
      const int64_t first = (o * shape.indices + range.first) * shape.inner,
                    count = range.size() * shape.inner;
      if (!runs.empty() && runs.back().whole + runs.back().count == first) {
        runs.back().count += count;
      } else {
        runs.push_back({first, next, count});
      }
      next += count;
    }
  }
  return runs;
}

}  // namespace medley
