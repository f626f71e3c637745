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

}  // namespace
}  // namespace medley
