#include "coordinator/jobs/job_life.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace medley {
namespace {

using S = JobState;
using E = JobEvent;

const std::vector<S> kStates = {S::kQueued,     S::kProfiling, S::kPlanning, S::kLaunching, S::kRunning,
                                S::kRecovering, S::kDone,      S::kFailed,   S::kCancelled};
const std::vector<E> kEvents = {E::kDevicesGranted, E::kProfiled, E::kPlanned,   E::kLaunched,      E::kLost,
                                E::kRefused,        E::kFinished, E::kCancelled, E::kWaitForDevices};

TEST_CASE("every state answers every event as the table says") {
  // What is not listed is refused. The job has not been restarted yet, and may be.
  const std::map<S, std::map<E, S>> table = {
      {S::kQueued,
       {{E::kDevicesGranted, S::kProfiling}, {E::kLost, S::kQueued}, {E::kRefused, S::kFailed},
        {E::kCancelled, S::kCancelled}, {E::kWaitForDevices, S::kQueued}}},
      {S::kProfiling,
       {{E::kProfiled, S::kPlanning}, {E::kLost, S::kRecovering}, {E::kRefused, S::kFailed},
        {E::kCancelled, S::kCancelled}, {E::kWaitForDevices, S::kQueued}}},
      {S::kPlanning,
       {{E::kPlanned, S::kLaunching}, {E::kLost, S::kRecovering}, {E::kRefused, S::kFailed},
        {E::kCancelled, S::kCancelled}, {E::kWaitForDevices, S::kQueued}}},
      {S::kLaunching,
       {{E::kLaunched, S::kRunning}, {E::kLost, S::kRecovering}, {E::kRefused, S::kFailed},
        {E::kCancelled, S::kCancelled}}},
      {S::kRunning,
       {{E::kFinished, S::kDone}, {E::kLost, S::kRecovering}, {E::kRefused, S::kFailed},
        {E::kCancelled, S::kCancelled}}},
      // With one restart behind it: without one it does not occur.
      {S::kRecovering,
       {{E::kDevicesGranted, S::kProfiling}, {E::kLost, S::kRecovering}, {E::kRefused, S::kFailed},
        {E::kCancelled, S::kCancelled}, {E::kWaitForDevices, S::kRecovering}}},
      {S::kDone, {{E::kCancelled, S::kDone}}},
      {S::kFailed, {{E::kCancelled, S::kFailed}}},
      {S::kCancelled, {{E::kCancelled, S::kCancelled}}},
  };
  for (const S state : kStates) {
    for (const E event : kEvents) {
      CAPTURE(NameOf(state), NameOf(event));
      const int restarts = state == S::kRecovering ? 1 : 0;
      const JobLife life{state, restarts, 2, "before"};
      const absl::StatusOr<JobLife> next = Next(life, event, "cause");
      const auto& row = table.at(state);
      if (!row.contains(event)) {
        REQUIRE(absl::IsFailedPrecondition(next.status()));
        CHECK_THAT(std::string(next.status().message()), Catch::Contains(NameOf(state)));
        CHECK_THAT(std::string(next.status().message()), Catch::Contains(NameOf(event)));
        continue;
      }
      REQUIRE(next.ok());
      CHECK(next->state == row.at(event));
      CHECK(next->max_restarts == 2);
      const bool counted = event == E::kLost && !WaitsForDevices(state);
      CHECK(next->restarts == restarts + (counted ? 1 : 0));
      const bool unchanged = IsEnded(state) || (event == E::kLost && WaitsForDevices(state));
      CHECK(next->reason == (unchanged ? "before" : "cause"));
    }
  }
}

TEST_CASE("a job that was restarted goes back to recovering, not to queued, when it must wait") {
  for (const S state : {S::kProfiling, S::kPlanning, S::kRecovering}) {
    CAPTURE(NameOf(state));
    const absl::StatusOr<JobLife> next = Next({state, 1, 3, ""}, E::kWaitForDevices, "waits for b/cpu0");
    REQUIRE(next.ok());
    CHECK(next->state == S::kRecovering);
    CHECK(next->restarts == 1);
    CHECK(next->reason == "waits for b/cpu0");
  }
}

TEST_CASE("the loss after the last allowed restart fails the job with its cause and the count") {
  for (const S state : {S::kProfiling, S::kPlanning, S::kLaunching, S::kRunning}) {
    CAPTURE(NameOf(state));
    const absl::StatusOr<JobLife> next = Next({state, 2, 2, ""}, E::kLost, "b/cpu0: worker died by signal 9");
    REQUIRE(next.ok());
    CHECK(next->state == S::kFailed);
    CHECK(next->restarts == 2);
    CHECK_THAT(next->reason,
               Catch::Contains("b/cpu0: worker died by signal 9") && Catch::Contains("2 restarts"));
  }
  const absl::StatusOr<JobLife> never = Next({S::kRunning, 0, 0, ""}, E::kLost, "gone");
  REQUIRE(never.ok());
  CHECK(never->state == S::kFailed);
}

// Whether some sequence of events leads from `life` to an end that is `wanted`.
bool CanReach(const JobLife& life, S wanted) {
  std::set<std::pair<S, int>> seen;
  std::deque<JobLife> open = {life};
  while (!open.empty()) {
    const JobLife at = open.front();
    open.pop_front();
    if (at.state == wanted) return true;
    if (!seen.insert({at.state, at.restarts}).second) continue;
    for (const E event : kEvents) {
      const absl::StatusOr<JobLife> next = Next(at, event, "");
      if (next.ok()) open.push_back(*next);
    }
  }
  return false;
}

TEST_CASE("whatever happens, restarts stay in bounds, an end is final and every end stays in reach",
          "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{300}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  JobLife life{.max_restarts = static_cast<int>(random() % 4)};
  int losses = 0;
  for (int i = 0; i < 60; ++i) {
    const E event = kEvents[random() % kEvents.size()];
    CAPTURE(i, NameOf(life.state), NameOf(event));
    const absl::StatusOr<JobLife> next = Next(life, event, "event " + std::to_string(i));
    if (IsEnded(life.state)) {
      if (next.ok()) CHECK(*next == life);
      CHECK(next.ok() == (event == E::kCancelled));
      continue;
    }
    for (const S end : {S::kDone, S::kFailed, S::kCancelled}) CHECK(CanReach(life, end));
    if (!next.ok()) continue;
    losses += event == E::kLost && !WaitsForDevices(life.state) ? 1 : 0;
    life = *next;
    CHECK(life.restarts <= life.max_restarts);
    CHECK(life.restarts == std::min(losses, life.max_restarts));
    if (losses > life.max_restarts) CHECK(life.state == S::kFailed);
    if (life.state == S::kRecovering) CHECK(life.restarts > 0);
    if (life.state == S::kQueued) CHECK(life.restarts == 0);
  }
}

TEST_CASE("states and events have names of their own") {
  std::set<std::string> states, events;
  for (const S state : kStates) states.insert(NameOf(state));
  for (const E event : kEvents) events.insert(NameOf(event));
  CHECK(states.size() == kStates.size());
  CHECK(events.size() == kEvents.size());
  CHECK(states.count("unknown") + events.count("unknown") == 0);
}

}  // namespace
}  // namespace medley
