#include "runtime/ir/model/random_shares.h"

#include <algorithm>
#include <numeric>

namespace medley {

std::vector<IndexRange> RandomCut(std::mt19937_64& random, int size, int parts) {
  std::vector<int> ends(size - 1);
  std::iota(ends.begin(), ends.end(), 1);
  std::shuffle(ends.begin(), ends.end(), random);
  ends.resize(parts - 1);
  ends.push_back(size);
  std::sort(ends.begin(), ends.end());
  std::vector<IndexRange> cut;
  for (const int end : ends) cut.push_back({cut.empty() ? 0 : cut.back().end, end});
  return cut;
}

std::vector<ModelShare> RandomShares(std::mt19937_64& random, const ModelConfig& model, int degree) {
  const int keys = model.key_value_head_count();
  std::vector<ModelShare> shares(degree);
  const auto deal = [&](IndexRange ModelShare::*part, const std::vector<IndexRange>& cut) {
    for (int member = 0; member < degree; ++member) shares[member].*part = cut[member];
  };
  if (degree <= keys && random() % 2 == 0) {
    deal(&ModelShare::key_value_heads, RandomCut(random, keys, degree));
  } else {
    std::vector<IndexRange> heads;
    do {
      heads = RandomCut(random, model.heads, degree);
    } while (!std::all_of(heads.begin(), heads.end(),
                          [&](const IndexRange& of) { return AttendAlike(model, of); }));
    deal(&ModelShare::query_heads, heads);
  }
  deal(&ModelShare::feed_forward, RandomCut(random, model.feed_forward, degree));
  deal(&ModelShare::vocabulary, RandomCut(random, model.vocabulary, degree));
  return shares;
}

}  // namespace medley
