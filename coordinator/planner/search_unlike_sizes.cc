#include <algorithm>
#include <iterator>
#include <limits>

#include "coordinator/planner/search.h"

// Routes with micro-batch sizes of their own. There are as many ways as combinations of sizes for every set of lists, and few
// are better than the best plan whose sizes are alike. So a set of lists is first bounded without its sizes: each route takes as
// many sequences as it can within a part of the best plan's time, with the size with which these are most; where all together
// take less than the batch, no sizes do better. That is looked up, for many sets have routes in common.
namespace medley {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Of the limit, what searching unlike micro-batch sizes may use at least, if need be beside it.
constexpr int64_t kLeastPartForUnlikeSizes = 8;
// What giving out sizes once costs, in simulated instructions.
constexpr int64_t kSizesInstructions = 3;
// Arrangements that have been given their sizes and are kept at once.
constexpr size_t kMostOfUnlikeSizes = 200'000;
// Parts of the best plan's time that arrangements of any sizes are bounded by.
constexpr double kLevels[] = {1, 0.99, 0.97, 0.94, 0.9, 0.85, 0.75, 0.6, 0.4};

}  // namespace

// The most sequences that a route takes within a part of the best plan's time (kLevels), without what follows its
// passes, with the micro-batch size with which it takes most. Remembered until there is a better plan. Once planning is
// stopped: anything.
int Search::MostSequences(const Arrangement& arrangement, size_t route, size_t level) {
  const double below = Below(0);
  if (below != most_sequences_below_) most_sequences_.clear();
  most_sequences_below_ = below;
  const std::array<int, 5> key = {arrangement.lists[route], static_cast<int>(arrangement.schedule),
                                  arrangement.shards_optimizer, arrangement.homes_layers,
                                  static_cast<int>(level)};
  if (const auto known = most_sequences_.find(key); known != most_sequences_.end()) return known->second;
  Arrangement alone = arrangement;
  alone.tied_seconds = alone.scalars_seconds = 0;
  int most_sequences = 0;
  for (size_t size = 0; size < problem_.micro_batch_sizes.size(); ++size) {
    if (limits_.stopped()) return 0;
    alone.sizes.assign(arrangement.lists.size(), static_cast<int>(size));
    const int sequences = problem_.micro_batch_sizes[size];
    const int most = MostMicroBatchesBelow(alone, route, problem_.shape.global_batch_sequences / sequences,
                                           below * kLevels[level]);
    most_sequences = std::max(most_sequences, sequences * most);
  }
  return most_sequences_[key] = most_sequences;
}

// A bound of all sizes and distributions; infinite if none is better than the best plan. Once planning is stopped: anything.
double Search::LeastSecondsOfAnySizes(const Arrangement& arrangement) {
  double bound = kInfinity;
  for (size_t level = 0; level < std::size(kLevels); ++level) {
    int together = 0;
    bool all = true;
    for (size_t r = 0; r < arrangement.lists.size() && all; ++r) {
      const int most = MostSequences(arrangement, r, level);
      together += most;
      all = most > 0;
    }
    if (!all || together < problem_.shape.global_batch_sequences) return bound;
    bound = level + 1 < std::size(kLevels) && Below(0) < kInfinity
                ? Below(0) * kLevels[level + 1] + arrangement.fixed_seconds()
                : 0;
    if (bound == 0) break;
  }
  return bound;
}

// An arrangement of any sizes becomes those of every combination of sizes but of one size; false: not of every one, for
// planning was stopped, SpentInstructions() reached `end_instructions`, or `found` has as many as may be kept. Routes of
// equal lists are interchangeable: their sizes do not descend.
bool Search::GiveUnlikeSizes(Arrangement& arrangement, int64_t end_instructions,
                             std::vector<Arrangement>& found) {
  if (SpentInstructions() >= end_instructions || found.size() >= kMostOfUnlikeSizes) return false;
  std::vector<int>& sizes = arrangement.sizes;
  if (sizes.size() == arrangement.lists.size()) {
    const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
    const bool fits = MostMicroBatches(arrangement, sizes.size() - 1) >= 1;
    evaluated_ += kSizesInstructions;
    if (*least < *most && fits) AddArrangement(arrangement, found);
    return !limits_.stopped();  // what is added once it is leaves arrangements out
  }
  const size_t next = sizes.size();
  const bool is_as_before = next > 0 && arrangement.lists[next] == arrangement.lists[next - 1];
  const int first = is_as_before ? sizes.back() : 0;
  for (int size = first; size < static_cast<int>(problem_.micro_batch_sizes.size()); ++size) {
    if (!tables_.Divides(size)) continue;
    sizes.push_back(size);
    const bool complete = GiveUnlikeSizes(arrangement, end_instructions, found);
    sizes.pop_back();
    if (!complete) return false;
  }
  return true;
}

// Last: there are many, and few are better than the best plan of alike sizes.
double Search::SearchUnlikeSizes() {
  const int64_t least = limits_.max_simulated_instructions / kLeastPartForUnlikeSizes;
  const int64_t left = std::max(least, limits_.max_simulated_instructions - SpentInstructions());
  limits_.max_simulated_instructions = SpentInstructions() + left;
  // Half of what is left may go into giving out sizes.
  const int64_t sizes_end = SpentInstructions() + left / 2;
  for (Arrangement& of_any : of_unlike_sizes_) {
    const double bound = LeastSecondsOfAnySizes(of_any);
    if (limits_.stopped()) break;  // they keep the bounds that they have
    of_any.bound_seconds = bound;
  }
  SortByBound(of_unlike_sizes_);
  double unfinished_bound = kInfinity;
  std::vector<Arrangement> arrangements;
  for (Arrangement& of_any : of_unlike_sizes_) {
    if (of_any.bound_seconds >= Below(of_any.units)) continue;
    if (!GiveUnlikeSizes(of_any, sizes_end, arrangements))
      unfinished_bound = std::min(unfinished_bound, of_any.bound_seconds);
  }
  of_unlike_sizes_.clear();
  return std::min(unfinished_bound, SearchAll(arrangements));
}

}  // namespace medley
