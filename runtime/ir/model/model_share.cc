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

int QueriesOfKey(const ModelConfig& config) { return config.heads / config.key_value_head_count(); }

}  // namespace

std::string SharingObjection(const ModelConfig& config, int degree) {
  const auto objection = [&](int has, const char* what) {
    return absl::StrCat(degree, "; the model has ", has, " ", what, ", so at most ", has);
  };
  if (config.heads < degree) return objection(config.heads, "heads");
  if (config.feed_forward < degree) return objection(config.feed_forward, "feed-forward columns");
  if (config.vocabulary < degree) return objection(config.vocabulary, "vocabulary rows");
  return "";
}

IndexRange QueryHeadsOf(const ModelConfig& config, const ModelShare& share) {
  if (share.query_heads.size() > 0) return share.query_heads;
  const int group = QueriesOfKey(config);
  return {share.key_value_heads.first * group, share.key_value_heads.end * group};
}

IndexRange KeyValueHeadsOf(const ModelConfig& config, const ModelShare& share) {
  if (share.query_heads.size() == 0) return share.key_value_heads;
  const int group = QueriesOfKey(config);
  return {share.query_heads.first / group, (share.query_heads.end + group - 1) / group};
}

bool AttendAlike(const ModelConfig& config, IndexRange query_heads) {
  const int group = QueriesOfKey(config);
  const bool whole = query_heads.first % group == 0 && query_heads.end % group == 0;
  return whole || query_heads.first / group == (query_heads.end - 1) / group;
}

bool HasKeysOfAnother(const ModelConfig& config, const std::vector<ModelShare>& shares, int member) {
  return member > 0 &&
         KeyValueHeadsOf(config, shares[member]).first < KeyValueHeadsOf(config, shares[member - 1]).end;
}

bool ShareKeys(const ModelConfig& config, const std::vector<ModelShare>& shares) {
  for (int member = 1; member < static_cast<int>(shares.size()); ++member) {
    if (HasKeysOfAnother(config, shares, member)) return true;
  }
  return false;
}

std::vector<IndexRange> MembersByKey(const ModelConfig& config, int degree) {
  std::vector<IndexRange> members;
  for (int key = 0; key < config.key_value_head_count(); ++key)
    members.push_back(EvenPart(degree, config.key_value_head_count(), key));
  return members;
}

std::vector<ModelShare> EvenShares(const ModelConfig& config, int degree) {
  std::vector<ModelShare> shares;
  for (int member = 0; member < degree; ++member) {
    shares.push_back(
        {{}, EvenPart(config.feed_forward, degree, member), EvenPart(config.vocabulary, degree, member)});
    if (degree <= config.key_value_head_count())
      shares.back().key_value_heads = EvenPart(config.key_value_head_count(), degree, member);
  }
  if (degree <= config.key_value_head_count()) return shares;
  const int group = QueriesOfKey(config);
  int first_query = 0;
  for (const IndexRange& members : MembersByKey(config, degree)) {
    for (int member = members.first; member < members.end; ++member) {
      const IndexRange part = EvenPart(group, members.size(), member - members.first);
      shares[member].query_heads = {first_query + part.first, first_query + part.end};
    }
    first_query += group;
  }
  return shares;
}

ModelShare WholeModel(const ModelConfig& config) {
  return {{0, config.key_value_head_count()}, {0, config.feed_forward}, {0, config.vocabulary}};
}

ModelShare AtOrigin(const ModelShare& share) {
  return {{0, share.key_value_heads.size()},
          {0, share.feed_forward.size()},
          {0, share.vocabulary.size()},
          {0, share.query_heads.size()}};
}

ModelConfig LocalModel(const ModelConfig& config, const ModelShare& share) {
  if (share == WholeModel(config)) return config;
  ModelConfig local = config;
  local.head_size = config.size_of_head();
  local.heads = QueryHeadsOf(config, share).size();
  if (config.key_value_heads > 0) local.key_value_heads = KeyValueHeadsOf(config, share).size();
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
  const int D = config.size_of_head(), K = config.key_value_head_count();
  const auto columns = [D](IndexRange heads) { return IndexRange{heads.first * D, heads.end * D}; };
  const IndexRange keys = columns(KeyValueHeadsOf(config, share)),
                   queries = columns(QueryHeadsOf(config, share));
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
