#include "comm/reshard/random_problem.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace medley {

ReshardProblem RandomReshardProblem(uint64_t seed, int64_t maximum_rows) {
  std::mt19937_64 random(seed);
  ReshardProblem problem;
  problem.rows = static_cast<int64_t>(random() % (maximum_rows + 1));
  problem.columns = static_cast<int64_t>(1 + random() % 150);
  problem.element_bytes = random() % 2 == 0 ? 2 : 4;
  std::vector<int> ranks(16);
  std::iota(ranks.begin(), ranks.end(), 0);
  std::shuffle(ranks.begin(), ranks.end(), random);
  for (std::vector<ReshardSlice>* side : {&problem.senders, &problem.receivers}) {
    const size_t degree = 1 + random() % 8;
    const bool replicated = random() % 3 == 0, weighted = random() % 3 == 0;
    std::vector<int64_t> cuts = {0, problem.columns};
    for (size_t i = 1; i < degree; ++i)
      cuts.push_back(static_cast<int64_t>(random() % (problem.columns + 1)));
    std::sort(cuts.begin(), cuts.end());
    for (size_t i = 0; i < degree; ++i) {
      ReshardSlice slice;
      slice.rank = ranks.back();
      ranks.pop_back();
      slice.column_begin = replicated ? 0 : cuts[i];
      slice.column_end = replicated ? problem.columns : cuts[i + 1];
      if (weighted) slice.weight = static_cast<uint32_t>(1 + random() % 1000);
      side->push_back(slice);
    }
  }
  return problem;
}

}  // namespace medley
