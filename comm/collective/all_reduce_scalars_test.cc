#include "comm/collective/all_reduce_scalars.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "comm/conformance/test_cluster.h"
#include "runtime/base/clock.h"
#include "runtime/ir/collective/scalar_tree.h"

namespace medley {
namespace {

// What `place` and those that gather to it at levels below `level` have together, added as ScalarTree groups them.
std::vector<double> SumAt(const ScalarTree& tree, const std::vector<std::vector<double>>& values, int level,
                          int place) {
  if (level == 0) return values[place];
  std::vector<double> sums(values[place].size(), 0.0);
  for (const int other : tree.GroupOf(level - 1, place)) {
    const std::vector<double> theirs = SumAt(tree, values, level - 1, other);
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += theirs[i];
  }
  return sums;
}

std::vector<double> SumOf(const std::vector<std::vector<double>>& values) {
  const ScalarTree tree(static_cast<int>(values.size()));
  std::vector<double> sums(values[0].size(), 0.0);
  for (const int place : tree.GroupOf(tree.levels(), 0)) {
    const std::vector<double> theirs = SumAt(tree, values, tree.levels(), place);
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += theirs[i];
  }
  return sums;
}

std::vector<std::vector<double>> RandomRows(int ranks, size_t count) {
  std::vector<std::vector<double>> values(ranks);
  std::mt19937_64 random(count);
  for (auto& row : values) {
    for (size_t i = 0; i < count; ++i) row.push_back(std::normal_distribution<double>()(random) * 1e3);
  }
  return values;
}

TEST_CASE("up to eight members are added in rank order") {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    const std::vector<std::vector<double>> values = RandomRows(ranks, 20);
    std::vector<double> want(20, 0.0);
    for (const auto& row : values) {
      for (size_t i = 0; i < want.size(); ++i) want[i] += row[i];
    }
    CHECK(SumOf(values) == want);
  }
}

TEST_CASE("AllReduceScalars adds as the tree says, to the bit, the same at every member") {
  const int ranks = GENERATE(1, 2, 3, 8, 10);
  const int kind = GENERATE(range(0, TransportUnderTest::kKinds));
  const TransportUnderTest transport = AllTransports()[kind];
  CAPTURE(transport.name, ranks);
  const auto cluster = transport.open(ranks);
  INFO(cluster.status().ToString());
  REQUIRE(cluster.ok());
  std::vector<int> members;
  for (int rank = 0; rank < ranks; ++rank) members.push_back(rank);
  for (const size_t count : {0, 1, 5, 300}) {
    CAPTURE(count);
    std::vector<std::vector<double>> values = RandomRows(ranks, count);
    const std::vector<double> want = SumOf(values);
    const auto statuses = (*cluster)->OnEveryRank([&](Transport& transport) {
      return AllReduceScalars(transport, members, absl::MakeSpan(values[transport.rank()]),
                              Now() + absl::Seconds(20));
    });
    for (int rank = 0; rank < ranks; ++rank) {
      INFO(statuses[rank].ToString());
      CHECK(statuses[rank].ok());
      CHECK((count == 0 || std::memcmp(values[rank].data(), want.data(), count * sizeof(double)) == 0));
    }
  }
}

TEST_CASE("of many members each has few messages, with those alone whom the tree names") {
  const int ranks = GENERATE(70, 100);
  CAPTURE(ranks);
  const auto cluster = AllTransports().front().open(ranks);
  REQUIRE(cluster.ok());
  std::vector<int> members(ranks);
  std::iota(members.begin(), members.end(), 0);
  std::vector<std::vector<double>> values = RandomRows(ranks, 3);
  const std::vector<double> want = SumOf(values);
  std::vector<std::vector<int>> peers(ranks);
  const auto statuses = (*cluster)->OnEveryRank([&](Transport& transport) {
    const absl::Status status = AllReduceScalars(transport, members, absl::MakeSpan(values[transport.rank()]),
                                                 Now() + absl::Seconds(60));
    for (const PeerTraffic& traffic : transport.Traffic()) peers[transport.rank()].push_back(traffic.peer);
    return status;
  });
  for (int rank = 0; rank < ranks; ++rank) {
    CAPTURE(rank);
    REQUIRE(statuses[rank].ToString() == "OK");
    CHECK(std::memcmp(values[rank].data(), want.data(), want.size() * sizeof(double)) == 0);
    CHECK(peers[rank] == ScalarTree(ranks).PeersOf(rank));
  }
}

}  // namespace
}  // namespace medley
