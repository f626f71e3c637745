#include "coordinator/problem/profile_change.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

v1::DeviceProfile Profile(double layer_seconds) {
  v1::DeviceProfile profile;
  for (const uint32_t size : {1, 2, 4}) {
    v1::BlockPassTimes& times = *profile.add_times();
    times.set_micro_batch_sequences(size);
    times.set_layer_forward_seconds(size * layer_seconds / 3);
    times.set_layer_backward_seconds(size * layer_seconds * 2 / 3);
    times.set_head_forward_seconds(size * layer_seconds / 2);
    times.set_embedding_forward_seconds(1e-9);
  }
  return profile;
}

TEST_CASE(
    "what takes half as long again as before is noticed, size by size; what got faster or is new is not") {
  const v1::DeviceProfile older = Profile(0.1);
  CHECK(MuchSlower(older, older).empty());
  CHECK(MuchSlower(older, Profile(0.14)).empty());
  CHECK(MuchSlower(older, Profile(0.01)).empty());
  CHECK(MuchSlower({}, Profile(0.2)).empty());
  CHECK(MuchSlower(older, Profile(0.16)).size() == 3);

  v1::DeviceProfile newer = Profile(0.1);
  newer.mutable_times(1)->set_layer_forward_seconds(3);
  REQUIRE(MuchSlower(older, newer).size() == 1);
  CHECK(MuchSlower(older, newer)[0].index == 1);
  CHECK_THAT(MuchSlower(older, newer)[0].why, Catch::Contains("a layer with 2 windows"));
  newer = Profile(0.1);
  newer.mutable_times(2)->set_head_forward_seconds(1);
  REQUIRE(MuchSlower(older, newer).size() == 1);
  CHECK_THAT(MuchSlower(older, newer)[0].why, Catch::Contains("the head with 4 windows"));

  // What was doubtful then proves nothing now.
  v1::DeviceProfile doubtful = older;
  doubtful.mutable_times(2)->set_doubt("wrong");
  CHECK(MuchSlower(doubtful, newer).empty());
}

TEST_CASE("of two profiles the one with fewer doubts is taken, then the faster one, and changes are marked") {
  v1::DeviceProfile slow = Profile(0.2), fast = Profile(0.1);
  CHECK(FasterOf(slow, fast).times(0).layer_forward_seconds() == fast.times(0).layer_forward_seconds());
  CHECK(FasterOf(fast, slow).times(0).layer_forward_seconds() == fast.times(0).layer_forward_seconds());
  fast.mutable_times(0)->set_doubt("wrong");
  CHECK(FasterOf(fast, slow).times(0).layer_forward_seconds() == slow.times(0).layer_forward_seconds());

  MarkAsDoubtful({{0, "slower"}, {2, "slower"}}, fast);
  CHECK(fast.times(0).doubt() == "wrong; slower");
  CHECK(fast.times(1).doubt().empty());
  CHECK(fast.times(2).doubt() == "slower");
}

}  // namespace
}  // namespace medley
