#include "agent/worker/agent_watch.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

const absl::Time kStart = absl::UnixEpoch() + absl::Hours(1);

// Looks at `silence` as often as it wants from `now` on; returns the moment at which it is over, or `end`.
absl::Time LookUntil(SilenceLimit& silence, absl::Time now, absl::Time end) {
  for (; now < end; now += silence.look_time()) {
    if (silence.IsOver(now)) return now;
  }
  return end;
}

TEST_CASE("a silence is over after the limit, at the next look, and well within two limits") {
  SilenceLimit silence(absl::Seconds(8), kStart);
  const absl::Time over = LookUntil(silence, kStart, kStart + absl::Hours(1));
  CHECK(over > kStart + absl::Seconds(8));
  CHECK(over <= kStart + absl::Seconds(10));
}

TEST_CASE("who is heard of often enough is never silent for too long") {
  SilenceLimit silence(absl::Seconds(8), kStart);
  for (int second = 0; second < 1000; ++second) {
    if (second % 7 == 0) silence.Heard(kStart + absl::Seconds(second));
    REQUIRE_FALSE(silence.IsOver(kStart + absl::Seconds(second)));
  }
}

TEST_CASE("a process that was stopped waits for one more limit before it believes in the silence") {
  SilenceLimit silence(absl::Seconds(8), kStart);
  CHECK_FALSE(silence.IsOver(kStart + absl::Seconds(1)));
  const absl::Time continued = kStart + absl::Hours(3);
  CHECK_FALSE(silence.IsOver(continued));
  SECTION("and is glad when it hears something") {
    silence.Heard(continued + absl::Seconds(7));
    CHECK(LookUntil(silence, continued, continued + absl::Seconds(14)) == continued + absl::Seconds(14));
  }
  SECTION("and ends when it does not") {
    const absl::Time over = LookUntil(silence, continued, continued + absl::Hours(1));
    CHECK(over > continued + absl::Seconds(8));
    CHECK(over <= continued + absl::Seconds(10));
  }
}

}  // namespace
}  // namespace medley
