#include "coordinator/rpc/timer_queue.h"

#include <catch2/catch.hpp>
#include <vector>

#include "runtime/base/clock.h"

namespace medley {
namespace {

TEST_CASE("what is due is done in the order of its time, and what is asked for meanwhile, too") {
  Mutex mutex;
  ConditionVariable changed;
  std::vector<int> done;
  TimerQueue timers;
  const auto note = [&](int what) {
    return [&, what] {
      MutexLock lock(mutex);
      done.push_back(what);
      changed.NotifyAll();
    };
  };
  const absl::Time soon = Now() + absl::Milliseconds(20);
  timers.At(soon + absl::Milliseconds(2), note(3));
  timers.At(soon, [&] {
    note(1)();
    timers.At(soon + absl::Milliseconds(1), note(2));
  });
  timers.At(Now() - absl::Seconds(1), note(0));
  MutexLock lock(mutex);
  REQUIRE(changed.WaitUntil(mutex, Now() + absl::Minutes(1), [&] { return done.size() == 4; }));
  CHECK(done == std::vector<int>{0, 1, 2, 3});
}

TEST_CASE("what is not due when the queue ends is not done, and not waited for") {
  bool done = false;
  {
    TimerQueue timers;
    timers.At(Now() + absl::Hours(1), [&] { done = true; });
  }
  CHECK_FALSE(done);
}

}  // namespace
}  // namespace medley
