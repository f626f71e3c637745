#include "coordinator/orchestrator/node_standing.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

const absl::Time kNoon = absl::FromUnixSeconds(43200);

TEST_CASE("a node whose agent did not answer is used again once it is heard of after that") {
  NodeStanding standing;
  CHECK(standing.IsUsable("a"));
  standing.Suspect("a", kNoon);
  CHECK(standing.IsSuspect("a"));
  CHECK(!standing.IsUsable("a"));
  CHECK(standing.IsUsable("b"));
  standing.Renewed("a", kNoon);  // under way before
  CHECK(!standing.IsUsable("a"));
  standing.Renewed("a", kNoon + absl::Milliseconds(1));
  CHECK(standing.IsUsable("a"));
  standing.Suspect("a", kNoon);
  standing.SuspectNoMore("a");
  CHECK(standing.IsUsable("a"));
}

TEST_CASE("each reason not to use a node ends by itself alone") {
  NodeStanding standing;
  standing.SetDrained({"a"});
  CHECK(!standing.Drain("a"));  // it is
  CHECK(standing.Drain("b"));
  CHECK(standing.SetLeaving("b"));
  CHECK(!standing.SetLeaving("b"));
  standing.Suspect("b", kNoon);
  CHECK(standing.drained() == std::set<std::string>{"a", "b"});

  standing.Renewed("b", kNoon + absl::Seconds(1));
  CHECK(!standing.IsSuspect("b"));
  CHECK(!standing.IsUsable("b"));
  standing.LeaveNoMore("b");
  CHECK(standing.IsDrained("b"));
  CHECK(!standing.IsUsable("b"));
  standing.Undrain("b");
  CHECK(standing.IsUsable("b"));
  CHECK(!standing.IsUsable("a"));
}

}  // namespace
}  // namespace medley
