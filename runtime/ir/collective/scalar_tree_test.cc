#include "runtime/ir/collective/scalar_tree.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

namespace medley {
namespace {

std::vector<int> UpTo(int members) {
  std::vector<int> places(members);
  std::iota(places.begin(), places.end(), 0);
  return places;
}

TEST_CASE(
    "up to eight exchange at once, and more have as many levels as their number has octal digits, less one") {
  for (int members = 1; members <= 8; ++members) {
    const ScalarTree tree(members);
    CHECK(tree.levels() == 0);
    CHECK(tree.GroupOf(0, members - 1) == UpTo(members));
  }
  CHECK(ScalarTree(9).levels() == 1);
  CHECK(ScalarTree(64).levels() == 1);
  CHECK(ScalarTree(65).levels() == 2);
  CHECK(ScalarTree(1 << 16).levels() == 5);
}

TEST_CASE("every member's values come to all of the exchange, once") {
  const int members = GENERATE(1, 2, 8, 9, 20, 63, 64, 65, 500, 513, 4097);
  CAPTURE(members);
  const ScalarTree tree(members);
  std::vector<int> gathered(members, 1);  // whose values a place has
  for (int level = 0; level < tree.levels(); ++level) {
    for (int place = 0; place < members; ++place) {
      if (!tree.TakesPart(level, place)) continue;
      const std::vector<int> group = tree.GroupOf(level, place);
      REQUIRE(std::count(group.begin(), group.end(), place) == 1);
      REQUIRE(std::is_sorted(group.begin(), group.end()));
      REQUIRE(tree.TakesPart(level + 1, place) == (group.front() == place));
      REQUIRE(tree.EndOf(level, place) == place + gathered[place]);
      if (group.front() != place) gathered[group.front()] += gathered[place];
    }
  }
  int all = 0;
  for (const int place : tree.GroupOf(tree.levels(), 0)) all += gathered[place];
  CHECK(all == members);
}

TEST_CASE("peers are each other's, few, and lead from each to all") {
  const int members = GENERATE(1, 2, 8, 9, 20, 65, 513, 5000);
  CAPTURE(members);
  const ScalarTree tree(members);
  std::vector<std::vector<int>> peers;
  for (int place = 0; place < members; ++place) peers.push_back(tree.PeersOf(place));
  for (int place = 0; place < members; ++place) {
    REQUIRE(peers[place].size() <= 7 * (static_cast<size_t>(tree.levels()) + 1));
    REQUIRE(std::is_sorted(peers[place].begin(), peers[place].end()));
    for (const int peer : peers[place]) {
      REQUIRE(peer != place);
      REQUIRE(std::binary_search(peers[peer].begin(), peers[peer].end(), place));
    }
  }
  std::vector<int> reached = {0};
  std::vector<bool> seen(members);
  seen[0] = true;
  for (size_t i = 0; i < reached.size(); ++i) {
    for (const int peer : peers[reached[i]]) {
      if (!seen[peer]) reached.push_back(peer);
      seen[peer] = true;
    }
  }
  CHECK(static_cast<int>(reached.size()) == members);
}

}  // namespace
}  // namespace medley
