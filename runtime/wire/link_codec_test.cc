#include "runtime/wire/link_codec.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

v1::LinkProfile Line() {
  v1::LinkProfile link;
  link.set_latency_seconds(1e-5);
  link.set_bytes_per_second(2e9);
  link.set_all_reduce_bytes_per_second(1e9);
  return link;
}

void Add(google::protobuf::RepeatedPtrField<v1::LinkPoint>* points, double bytes, double seconds) {
  points->Add()->set_bytes(bytes);
  points->rbegin()->set_seconds(seconds);
}

TEST_CASE("a profile without points is a line") {
  const absl::StatusOr<LinkCost> cost = DecodeLink(Line());
  REQUIRE(cost.ok());
  CHECK(cost->transfer.Seconds(2e9) == Approx(1 + 1e-5));
  CHECK(cost->exchange.Seconds(2e9) == Approx(2 + 1e-5));
  CHECK(cost->transfer.LatencySeconds() == Approx(1e-5));
}

TEST_CASE("points are taken as they are, each curve by itself") {
  v1::LinkProfile link = Line();
  Add(link.mutable_transfer(), 0, 1e-6);
  Add(link.mutable_transfer(), 1e6, 1e-3);
  const absl::StatusOr<LinkCost> cost = DecodeLink(link);
  REQUIRE(cost.ok());
  CHECK(cost->transfer.points == std::vector<LinkPoint>{{0, 1e-6}, {1e6, 1e-3}});
  CHECK(cost->exchange.Seconds(1e9) == Approx(1 + 1e-5));
}

TEST_CASE("points that are no curve are refused by name") {
  v1::LinkProfile link = Line();
  Add(link.mutable_exchange(), 10, 1e-6);
  Add(link.mutable_exchange(), 5, 1e-3);
  const absl::Status status = DecodeLink(link).status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK_THAT(std::string(status.message()), Catch::StartsWith("exchange[1].bytes: "));
}

TEST_CASE("measured sums are taken as they are, by number of members") {
  v1::LinkProfile link = Line();
  CHECK(DecodeLink(link)->all_reduce.empty());
  for (const uint32_t members : {2, 8}) {
    v1::AllReduceTimes& times = *link.add_all_reduce();
    times.set_members(members);
    Add(times.mutable_points(), 1 << 20, 1e-5 * members);
    Add(times.mutable_points(), 1 << 30, 1e-3 * members);
  }
  const absl::StatusOr<LinkCost> cost = DecodeLink(link);
  REQUIRE(cost.ok());
  CHECK(cost->all_reduce == std::vector<AllReduceTimes>{{2, {{{1 << 20, 2e-5}, {1 << 30, 2e-3}}}},
                                                        {8, {{{1 << 20, 8e-5}, {1 << 30, 8e-3}}}}});
  v1::LinkProfile again = Line();
  *again.mutable_all_reduce() = EncodeAllReduceTimes(cost->all_reduce);
  CHECK(DecodeLink(again)->all_reduce == cost->all_reduce);
  link.mutable_all_reduce(1)->set_members(2);
  CHECK(DecodeLink(link).status().message() == "all_reduce[1].members: 2 after 2; must ascend");
}

}  // namespace
}  // namespace medley
