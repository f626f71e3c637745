#include "runtime/base/mutex.h"

#include <catch2/catch.hpp>
#include <thread>

namespace medley {
namespace {

TEST_CASE("a wait ends when what it waits for is there, and says so") {
  Mutex mutex;
  ConditionVariable changed;
  bool there = false;
  std::thread other([&] {
    MutexLock lock(mutex);
    there = true;
    changed.NotifyAll();
  });
  {
    MutexLock lock(mutex);
    CHECK(changed.WaitUntil(mutex, Now() + absl::Seconds(20), [&] { return there; }));
  }
  other.join();
}

TEST_CASE("a wait ends at its deadline and not before, and one whose deadline is long past ends at once") {
  Mutex mutex;
  ConditionVariable changed;
  MutexLock lock(mutex);
  const absl::Time begin = Now();
  CHECK_FALSE(changed.WaitUntil(mutex, begin + absl::Milliseconds(30), [] { return false; }));
  CHECK(Now() - begin >= absl::Milliseconds(30));
  CHECK_FALSE(changed.WaitUntil(mutex, absl::InfinitePast(), [] { return false; }));
  CHECK_FALSE(changed.WaitUntil(mutex, absl::UnixEpoch(), [] { return false; }));
  CHECK(changed.WaitUntil(mutex, absl::InfinitePast(), [] { return true; }));
}

TEST_CASE("deadlines survive the way to other clocks and back") {
  const absl::Time begin = Now(), deadline = begin + absl::Seconds(100);
  // Less than a second, and what this thread waits meanwhile for its turn.
  const auto margin = [&] { return absl::Seconds(1) + (Now() - begin); };
  CHECK(absl::AbsDuration(FromSystemClock(ToSystemClock(deadline)) - deadline) < margin());
  CHECK(FromSystemClock(ToSystemClock(absl::InfiniteFuture())) == absl::InfiniteFuture());
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const absl::Duration left =
      absl::DurationFromTimespec(ToMonotonic(deadline)) - absl::DurationFromTimespec(now);
  CHECK(absl::AbsDuration(left - absl::Seconds(100)) < margin());
}

}  // namespace
}  // namespace medley
