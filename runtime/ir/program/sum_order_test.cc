#include "runtime/ir/program/sum_order.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

namespace medley {
namespace {

// When the last of them is summed if each takes as long as it is large and holders sum one at a time.
int64_t EndOf(const std::vector<SummedRun>& runs, const std::vector<int>& order) {
  std::vector<int64_t> free(128, 0);
  int64_t end = 0;
  for (const int r : order) {
    int64_t start = 0;
    for (const int holder : runs[r].holders) start = std::max(start, free[holder]);
    end = std::max(end, start + runs[r].elements);
    for (const int holder : runs[r].holders) free[holder] = start + runs[r].elements;
  }
  return end;
}

std::vector<int> AsGiven(const std::vector<SummedRun>& runs) {
  std::vector<int> order;
  for (int r = 0; r < static_cast<int>(runs.size()); ++r) order.push_back(r);
  return order;
}

// Replicas that are cut at random layers of `layers`, each of one element.
std::vector<SummedRun> RandomCuts(uint64_t seed, int replicas, int layers) {
  std::mt19937_64 random(seed);
  std::vector<std::vector<int>> stage_of_layer(replicas);
  int stages = 0;
  for (std::vector<int>& of : stage_of_layer) {
    for (int layer = 0; layer < layers; ++layer) {
      if (layer > 0 && random() % 4 == 0) ++stages;
      of.push_back(stages);
    }
    ++stages;
  }
  std::vector<SummedRun> runs;
  for (int layer = layers; layer-- > 0;) {
    std::vector<int> holders;
    for (const std::vector<int>& of : stage_of_layer) holders.push_back(of[layer]);
    if (runs.empty() || runs.back().holders != holders) runs.push_back({.holders = std::move(holders)});
    ++runs.back().elements;
  }
  return runs;
}

TEST_CASE("where replicas are cut alike sums go from the last layer to the first") {
  // Two stages; the last run is the tied embedding, which both hold.
  const std::vector<SummedRun> runs = {{10, {2, 3}}, {12, {0, 1}}, {5, {0, 1, 2, 3}}};
  CHECK(OrderOfSums(runs) == AsGiven(runs));
}

TEST_CASE("where replicas are cut by halves disjoint sums go at once") {
  // One replica is cut in two, the other in three: from the end, five layers each, held by its stages 1, 1, 0, 0 and
  // by the other's 4, 3, 3, 2. One after another they take 20; at once, two by two, 10.
  const std::vector<SummedRun> runs = {{5, {1, 4}}, {5, {1, 3}}, {5, {0, 3}}, {5, {0, 2}}};
  CHECK(EndOf(runs, AsGiven(runs)) == 20);
  CHECK(OrderOfSums(runs) == std::vector<int>{0, 2, 1, 3});
  CHECK(EndOf(runs, OrderOfSums(runs)) == 10);
}

TEST_CASE("what nobody else holds keeps nothing waiting") {
  const std::vector<SummedRun> runs = {{100, {0}, false}, {1, {0, 1}}};
  CHECK(EndOf(runs, OrderOfSums(runs)) >= 1);
  CHECK(OrderOfSums(runs).size() == 2);
}

TEST_CASE("of random cuts all runs are there once, and they end sooner") {
  double given = 0, ordered = 0, least = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    const std::vector<SummedRun> runs = RandomCuts(seed, 2 + static_cast<int>(seed % 3), 24);
    std::vector<int> order = OrderOfSums(runs);
    const int64_t end = EndOf(runs, order);
    std::vector<int64_t> work(128, 0);
    for (const SummedRun& run : runs) {
      for (const int holder : run.holders) work[holder] += run.elements;
    }
    given += static_cast<double>(EndOf(runs, AsGiven(runs)));
    ordered += static_cast<double>(end);
    least += static_cast<double>(*std::max_element(work.begin(), work.end()));
    std::sort(order.begin(), order.end());
    REQUIRE(order == AsGiven(runs));
  }
  // As given they nearly all follow one another.
  CHECK(ordered < 0.75 * given);
  CHECK(ordered < 1.5 * least);
}

}  // namespace
}  // namespace medley
