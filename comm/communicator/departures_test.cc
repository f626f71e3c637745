#include "comm/communicator/departures.h"

#include <catch2/catch.hpp>

#include "runtime/base/clock.h"

namespace medley {
namespace {

constexpr absl::Duration kLate = absl::Milliseconds(200), kLast = absl::Milliseconds(600);

TEST_CASE("departures are told in the order in which they are due, none early, none after the end") {
  struct Told {
    Departures::Departure departure;
    absl::Duration after;
  };
  // Again where the machine stood still while they were added: the first may have been due before the last was there.
  for (bool in_time = false; !in_time;) {
    Mutex mutex;
    ConditionVariable changed;
    std::vector<Told> told;
    const absl::Time begin = Now();
    {
      Departures departures([&](const Departures::Departure& departure) {
        MutexLock lock(mutex);
        told.push_back({departure, Now() - begin});
        changed.NotifyAll();
      });
      departures.Add({9, false, "why 9"}, absl::Minutes(10));
      departures.Add({3, false, "why 3"}, kLast);
      departures.Add({2, true, "why 2"}, kLate);
      departures.Add({0, false, "why 0"}, absl::ZeroDuration());
      in_time = Now() - begin < kLate;
      MutexLock lock(mutex);
      REQUIRE(changed.WaitUntil(mutex, Now() + absl::Minutes(1), [&] { return told.size() == 3; }));
    }
    std::vector<int> ranks;
    for (const auto& [departure, after] : told) {
      CAPTURE(departure.rank);
      ranks.push_back(departure.rank);
      CHECK(after >= (departure.rank == 3 ? kLast : departure.rank == 2 ? kLate : absl::ZeroDuration()));
      CHECK(departure.left == (departure.rank == 2));
      CHECK(departure.why == "why " + std::to_string(departure.rank));
    }
    if (in_time) CHECK(ranks == std::vector<int>{0, 2, 3});
  }
}

}  // namespace
}  // namespace medley
