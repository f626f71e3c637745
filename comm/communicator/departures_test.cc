#include "comm/communicator/departures.h"

#include <catch2/catch.hpp>

#include "runtime/base/clock.h"

namespace medley {
namespace {

// Further apart than a busy machine keeps a thread from running.
constexpr absl::Duration kLate = absl::Milliseconds(200), kLast = absl::Seconds(3);

TEST_CASE("departures are told in the order in which they are due, none early, none after the end") {
  Mutex mutex;
  ConditionVariable changed;
  std::vector<int> told;
  const absl::Time begin = Now();
  {
    Departures departures([&](const Departures::Departure& departure) {
      MutexLock lock(mutex);
      CHECK(Now() - begin >= (departure.rank == 3   ? kLast
                              : departure.rank == 2 ? kLate
                                                    : absl::ZeroDuration()));
      CHECK(departure.left == (departure.rank == 2));
      CHECK(departure.why == "why " + std::to_string(departure.rank));
      told.push_back(departure.rank);
      changed.NotifyAll();
    });
    departures.Add({9, false, "why 9"}, absl::Minutes(10));
    departures.Add({3, false, "why 3"}, kLast);
    departures.Add({2, true, "why 2"}, kLate);
    departures.Add({0, false, "why 0"}, absl::ZeroDuration());
    MutexLock lock(mutex);
    CHECK(changed.WaitUntil(mutex, Now() + absl::Seconds(20), [&] { return told.size() == 3; }));
  }
  CHECK(told == std::vector<int>{0, 2, 3});
}

}  // namespace
}  // namespace medley
