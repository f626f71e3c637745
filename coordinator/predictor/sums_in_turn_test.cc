#include "coordinator/predictor/sums_in_turn.h"

#include <catch2/catch.hpp>

#include "coordinator/predictor/shared_ways.h"

namespace medley {
namespace {

constexpr int64_t kAll = SharedWays::kAll;

TEST_CASE("holders sum one at a time, in their order") {
  std::vector<SumInTurn> sums = {{{0, 1}, 1, 2}, {{1, 2}, 0, 3}, {{0}, 0, 1}, {{2}, 0, 1}, {{3}, 0.5, 1}};
  RunInTurn(4, 0, sums);
  CHECK(sums[0].end_seconds == 3);  // it is ready at 1
  CHECK(sums[1].end_seconds == 6);
  CHECK(sums[2].end_seconds == 4);
  CHECK(sums[3].end_seconds == 7);
  CHECK(sums[4].end_seconds == 1.5);
}

TEST_CASE("sums that want more than all cards of a host slow each other down, for as long as they do") {
  // Both take all cards: each has half of them from 1 on, until the first is done.
  std::vector<SumInTurn> sums = {{{0}, 0, 2, {{0, kAll}}}, {{1}, 1, 2, {{0, kAll}}}};
  RunInTurn(2, 1, sums);
  CHECK(sums[0].end_seconds == Approx(3));
  CHECK(sums[1].end_seconds == Approx(4));
  // What half of them is enough for goes beside each other, and beside what is on another host.
  sums = {{{0}, 0, 2, {{0, kAll / 2}}},
          {{1}, 0, 2, {{0, kAll / 2}, {1, kAll / 4}}},
          {{2}, 0, 2, {{1, kAll / 2}}}};
  RunInTurn(3, 2, sums);
  for (const SumInTurn& sum : sums) CHECK(sum.end_seconds == 2);
  // The slowest host counts.
  sums = {{{0}, 0, 2, {{0, kAll}, {1, kAll}}}, {{1}, 0, 2, {{0, kAll}}}, {{2}, 0, 4, {{1, kAll / 2}}}};
  RunInTurn(3, 2, sums);
  CHECK(sums[0].end_seconds == Approx(4));
  CHECK(sums[1].end_seconds == Approx(4));
  CHECK(sums[2].end_seconds == Approx(4.0 + (4 - 4 / 1.5)));
}

}  // namespace
}  // namespace medley
