#include "runtime/ir/collective/scalar_tree.h"

#include <algorithm>

namespace medley {

ScalarTree::ScalarTree(int members) : members_(members), strides_({1}) {
  while ((members_ - 1) / strides_.back() >= kMostTogether)
    strides_.push_back(strides_.back() * kMostTogether);
}

std::vector<int> ScalarTree::GroupOf(int level, int place) const {
  const int stride = strides_[level], first = place - place % (kMostTogether * stride);
  std::vector<int> group;
  for (int i = 0; i < kMostTogether && first + i * stride < members_; ++i)
    group.push_back(first + i * stride);
  return group;
}

std::vector<int> ScalarTree::PeersOf(int place) const {
  std::vector<int> peers;
  for (int level = 0; level <= levels() && TakesPart(level, place); ++level) {
    const std::vector<int> group = GroupOf(level, place);
    const bool gives_first_alone = level < levels() && group.front() != place;
    peers.insert(peers.end(), group.begin(), gives_first_alone ? group.begin() + 1 : group.end());
  }
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  std::erase(peers, place);
  return peers;
}

}  // namespace medley
