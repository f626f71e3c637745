#pragma once
#include <algorithm>
#include <vector>

namespace medley {

// Who gives whom the few doubles that a group sums at the end of a step: losses, norms, wishes. What counts is rounds,
// and how many messages a member has: neighbours gather to the first of each eight of them, those first ones to the first
// of each eight of theirs, and so on, until at most eight are left, who each give each theirs; then the sums go back the
// way that the values came. Up to eight members exchange at once, in one round; 8^k take 2 k - 1 rounds, and a member
// has at most 14 messages each way a level. Members are places, 0 .. n - 1. comm/collective runs it, and
// coordinator/predictor times it.
class ScalarTree {
 public:
  // `members`: at least 1.
  explicit ScalarTree(int members);

  // How often members gather to the first of their group before the others exchange.
  int levels() const { return static_cast<int>(strides_.size()) - 1; }
  // Whether `place` is in a group of `level`, [0, levels()]: all are at level 0. At levels() there is one group, of those
  // who exchange.
  bool TakesPart(int level, int place) const { return place % strides_[level] == 0; }
  // The group of `place` at `level`, where it takes part: ascending; below levels() the first one gathers.
  std::vector<int> GroupOf(int level, int place) const;
  // Whose values `place`, which takes part, has when the groups of `level` meet: [place, EndOf(level, place)).
  int EndOf(int level, int place) const { return std::min(members_, place + strides_[level]); }
  // Those whom `place` exchanges messages with, ascending.
  std::vector<int> PeersOf(int place) const;

  static constexpr int kMostTogether = 8;

 private:
  int members_;
  std::vector<int> strides_;  // by level, between neighbours
};

}  // namespace medley
