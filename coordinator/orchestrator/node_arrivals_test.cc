#include "coordinator/orchestrator/node_arrivals.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

const absl::Time kBegan = absl::FromUnixSeconds(43200);
constexpr absl::Duration kSettle = absl::Seconds(2), kLease = absl::Seconds(6),
                         kMoment = absl::Milliseconds(1);

TEST_CASE("nodes have come once none has for a while") {
  NodeArrivals arrivals(kSettle, kBegan);
  CHECK(arrivals.Settled(kBegan));
  arrivals.NewNodeCame(kBegan);
  CHECK(!arrivals.Settled(kBegan + kSettle - kMoment));
  arrivals.NewNodeCame(kBegan + absl::Seconds(1));
  CHECK(!arrivals.Settled(kBegan + kSettle));
  CHECK(arrivals.Settled(kBegan + absl::Seconds(1) + kSettle));
}

TEST_CASE("nodes that were there before are waited for, for a lease and a second at most") {
  NodeArrivals arrivals(kSettle, kBegan);
  arrivals.Await({"a", "b"}, kLease);
  CHECK(!arrivals.Settled(kBegan + kLease));
  CHECK(!arrivals.AllHadTime(kBegan + kLease));
  CHECK(arrivals.Settled(kBegan + kLease + absl::Seconds(1)));
  CHECK(arrivals.AllHadTime(kBegan + kLease + absl::Seconds(1)));

  arrivals.AwaitNoMore("a");
  CHECK(!arrivals.Settled(kBegan + kLease));
  arrivals.AwaitNoMore("b");
  CHECK(arrivals.Settled(kBegan + kMoment));
}

}  // namespace
}  // namespace medley
