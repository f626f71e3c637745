#include "coordinator/problem/profile_change.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

DeviceProfile Profile(double layer_seconds) {
  DeviceProfile profile;
  for (const int size : {1, 2, 4}) {
    ProfiledTimes& times = profile.times.emplace_back();
    times.micro_batch_sequences = size;
    times.blocks.layer = {size * layer_seconds / 3, size * layer_seconds * 2 / 3};
    times.blocks.head.forward_seconds = size * layer_seconds / 2;
    times.blocks.embedding.forward_seconds = 1e-9;
  }
  return profile;
}

TEST_CASE(
    "what takes half as long again as before is noticed, size by size; what got faster or is new is not") {
  const DeviceProfile older = Profile(0.1);
  CHECK(MuchSlower(older, older).empty());
  CHECK(MuchSlower(older, Profile(0.14)).empty());
  CHECK(MuchSlower(older, Profile(0.01)).empty());
  CHECK(MuchSlower({}, Profile(0.2)).empty());
  CHECK(MuchSlower(older, Profile(0.16)).size() == 3);

  DeviceProfile newer = Profile(0.1);
  newer.times[1].blocks.layer.forward_seconds = 3;
  REQUIRE(MuchSlower(older, newer).size() == 1);
  CHECK(MuchSlower(older, newer)[0].index == 1);
  CHECK_THAT(MuchSlower(older, newer)[0].why, Catch::Contains("a layer with 2 windows"));
  newer = Profile(0.1);
  newer.times[2].blocks.head.forward_seconds = 1;
  REQUIRE(MuchSlower(older, newer).size() == 1);
  CHECK_THAT(MuchSlower(older, newer)[0].why, Catch::Contains("the head with 4 windows"));

  // What was doubtful then proves nothing now.
  DeviceProfile doubtful = older;
  doubtful.times[2].doubt = "wrong";
  CHECK(MuchSlower(doubtful, newer).empty());
}

TEST_CASE("of two profiles the one with fewer doubts is taken, then the faster one, and changes are marked") {
  DeviceProfile slow = Profile(0.2), fast = Profile(0.1);
  CHECK(FasterOf(slow, fast).times[0].blocks.layer.forward_seconds ==
        fast.times[0].blocks.layer.forward_seconds);
  CHECK(FasterOf(fast, slow).times[0].blocks.layer.forward_seconds ==
        fast.times[0].blocks.layer.forward_seconds);
  fast.times[0].doubt = "wrong";
  CHECK(FasterOf(fast, slow).times[0].blocks.layer.forward_seconds ==
        slow.times[0].blocks.layer.forward_seconds);

  MarkAsDoubtful({{0, "slower"}, {2, "slower"}}, fast);
  CHECK(fast.times[0].doubt == "wrong; slower");
  CHECK(fast.times[1].doubt.empty());
  CHECK(fast.times[2].doubt == "slower");
}

}  // namespace
}  // namespace medley
