#include "runtime/ir/link/all_reduce_times.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "runtime/ir/link/link_rise.h"

namespace medley {
namespace {

constexpr double kLatencySeconds = 1e-5, kBytesPerSecond = 1e11;

// As a ring has it, to the last digit.
double RingSeconds(int members, double bytes) {
  return 2 * (members - 1) * (kLatencySeconds + bytes / members / kBytesPerSecond);
}

AllReduceTimes Ring(int members) {
  return {members, {{{0, RingSeconds(members, 0)}, {1e9, RingSeconds(members, 1e9)}}}};
}

TEST_CASE("a number of members that was measured takes its points, straight lines between them") {
  const std::vector<AllReduceTimes> times = {{2, {{{0, 1}, {100, 2}}}}, {4, {{{0, 3}, {100, 7}}}}};
  CHECK(MeasuredSumSeconds(times, 2, 50) == 1.5);
  CHECK(MeasuredSumSeconds(times, 4, 50) == 5);
  CHECK(MeasuredSumSeconds(times, 4, 200) == 11);
}

TEST_CASE("other numbers of members are told by the nearest as rings are") {
  for (const int measured : {2, 3, 8}) {
    for (const int members : {2, 3, 5, 8, 64}) {
      CAPTURE(measured, members);
      for (const double bytes : {0.0, 1e4, 3e6, 4e9})
        CHECK(MeasuredSumSeconds({{Ring(measured)}}, members, bytes) ==
              Approx(RingSeconds(members, bytes)).epsilon(1e-9));
    }
  }
  // Level, so that it shows which one told: of 2 members a round, of 8 seven.
  const std::vector<AllReduceTimes> times = {{2, {{{0, 1}}}}, {8, {{{0, 70}}}}};
  CHECK(MeasuredSumSeconds(times, 4, 0) == Approx(3));
  CHECK(MeasuredSumSeconds(times, 5, 0) == Approx(40));
  CHECK(MeasuredSumSeconds(times, 9, 0) == Approx(80));
}

// Of a link whose messages are slow beside such sums.
LinkRise RiseOf(const std::vector<AllReduceTimes>& measured) {
  const LinkModel slow = LinkModel::Line(0, 1);
  LinkRise rise;
  rise.Cover(LinkCost{slow, slow, measured});
  return rise;
}

TEST_CASE("no sum is shorter than what its bytes and twice what members get take by the rise of its link") {
  const std::vector<std::vector<AllReduceTimes>> measured = {
      {{3, {{{1e3, 1}, {5e3, 1}, {1e5, 4}}}}, {8, {{{0, 1}, {1e5, 2}}}}},
      {{8, {{{1048576, 9.2e-5}, {1073741824, 8.2e-3}}}}},
      {{4, {{{1e6, 1e-3}}}}},
      {{2, {{{1e6, 1e-3}, {2e6, 1e-3}, {4e6, 5e-3}}}}},
      {{2, {{{0, 0}, {1e6, 1e-3}, {2e6, 1.1e-3}}}}}};
  for (const std::vector<AllReduceTimes>& times : measured) {
    const LinkRise rise = RiseOf(times);
    // However large the first vector was that was measured, all bytes count.
    CHECK(rise.level_bytes == 0);
    CHECK(rise.bytes_per_second < 1e13);
    for (const int members : {2, 3, 5, 8, 40}) {
      for (const double bytes : {1e2, 1e3, 5e3, 1e4, 1e5, 1e6, 2e6, 3e6, 1e9, 1e11}) {
        CAPTURE(times.front().members, members, bytes);
        CHECK(MeasuredSumSeconds(times, members, bytes) >= 2 * bytes / rise.bytes_per_second * (1 - 1e-12));
      }
    }
  }
}

TEST_CASE("the rise of measured sums is four times the fastest that bytes were summed at, or will be") {
  const auto rate_of = [](const LinkModel& seconds) { return RiseOf({{2, seconds}}).bytes_per_second; };
  CHECK(rate_of({{{1e6, 1e-3}, {2e6, 1e-3}, {4e6, 5e-3}}}) == Approx(4 * 2e9));  // of the second point
  CHECK(rate_of({{{1e6, 1e-3}, {2e6, 1.1e-3}}}) == Approx(4 * 1e10));            // of the slope
  CHECK(rate_of({{{1e6, 1e-3}}}) == Approx(4 * 1e9));
}

TEST_CASE("times that are none are refused by their place") {
  const auto refusal = [](const std::vector<AllReduceTimes>& times) {
    return std::string(CheckAllReduceTimes(times).message());
  };
  CHECK(CheckAllReduceTimes({}).ok());
  CHECK(CheckAllReduceTimes({{Ring(2), Ring(3)}}).ok());
  CHECK(refusal({Ring(2), {1, {{{0, 1}}}}}) == "[1].members: 1; must be at least 2");
  CHECK(refusal({Ring(4), Ring(4)}) == "[1].members: 4 after 4; must ascend");
  CHECK(refusal({{2, {}}}) == "[0].points: there are none; at least one is needed");
  CHECK(refusal({Ring(2), {3, {{{0, 2}, {8, 1}}}}}) == "[1].points[1].seconds: 1 after 2; must not fall");
}

}  // namespace
}  // namespace medley
