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
const std::vector<E> kEvents = {E::kDevicesGranted, E::kProfiled,    E::kPlanned,  E::kLaunched,
                                E::kLost,           E::kRefused,     E::kFinished, E::kCancelled,
                                E::kWaitForDevices, E::kInterrupted, E::kResumed};

TEST_CASE("every state answers every event as the table says") {
  // What is not listed is refused. The job has not been restarted yet, and may be.
  const std::map<S, std::map<E, S>> table = {
      {S::kQueued,
       {{E::kDevicesGranted, S::kProfiling},
        {E::kLost, S::kQueued},
        {E::kRefused, S::kFailed},
        {E::kCancelled, S::kCancelled},
        {E::kWaitForDevices, S::kQueued},
        {E::kInterrupted, S::kQueued}}},
      {S::kProfiling,
       {{E::kProfiled, S::kPlanning},
        {E::kLost, S::kRecovering},
        {E::kRefused, S::kFailed},
        {E::kCancelled, S::kCancelled},
        {E::kWaitForDevices, S::kQueued},
        {E::kInterrupted, S::kQueued}}},
      {S::kPlanning,
       {{E::kPlanned, S::kLaunching},
        {E::kLost, S::kRecovering},
        {E::kRefused, S::kFailed},
        {E::kCancelled, S::kCancelled},
        {E::kWaitForDevices, S::kQueued},
        {E::kInterrupted, S::kQueued}}},
      {S::kLaunching,
       {{E::kLaunched, S::kRunning},
        {E::kLost, S::kRecovering},
        {E::kRefused, S::kFailed},
        {E::kCancelled, S::kCancelled},
        {E::kInterrupted, S::kQueued}}},
      {S::kRunning,
       {{E::kFinished, S::kDone},
        {E::kLost, S::kRecovering},
        {E::kRefused, S::kFailed},
        {E::kCancelled, S::kCancelled},
        {E::kInterrupted, S::kRecovering}}},
      // With one restart behind it.
      {S::kRecovering,
       {{E::kDevicesGranted, S::kProfiling},
        {E::kLost, S::kRecovering},
        {E::kRefused, S::kFailed},
        {E::kCancelled, S::kCancelled},
        {E::kWaitForDevices, S::kRecovering},
        {E::kInterrupted, S::kRecovering}}},
      {S::kDone, {{E::kCancelled, S::kDone}}},
      {S::kFailed, {{E::kCancelled, S::kFailed}, {E::kResumed, S::kRecovering}}},
      {S::kCancelled, {{E::kCancelled, S::kCancelled}, {E::kResumed, S::kRecovering}}},
  };
  for (const S state : kStates) {
    for (const E event : kEvents) {
      CAPTURE(NameOf(state), NameOf(event));
      const int restarts = state == S::kRecovering ? 1 : 0;
      const JobLife life{state, restarts, 2, "before"};
      const absl::StatusOr<JobLife> next = Next(life, event, "cause");
      const auto& row = table.at(state);
      if (event == E::kResumed && !IsEnded(state)) {
        CHECK(*next == life);
        continue;
      }
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
      const bool unchanged = (IsEnded(state) && event != E::kResumed) ||
                             ((event == E::kLost || event == E::kInterrupted) && WaitsForDevices(state));
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
    const absl::StatusOr<JobLife> next =
        Next({state, 5, 2, "", 2}, E::kLost, "b/cpu0: worker died by signal 9");
    REQUIRE(next.ok());
    CHECK(next->state == S::kFailed);
    CHECK(next->restarts == 5);
    CHECK_THAT(next->reason,
               Catch::Contains("b/cpu0: worker died by signal 9") && Catch::Contains("2 restarts"));
  }
  const absl::StatusOr<JobLife> never = Next({S::kRunning, 0, 0, ""}, E::kLost, "gone");
  REQUIRE(never.ok());
  CHECK(never->state == S::kFailed);
}

TEST_CASE("a checkpoint gives the job all its restarts back, and so does the user who resumes it") {
  JobLife life{S::kRunning, 7, 2, "", 2};
  JobLife after_checkpoint = life;
  after_checkpoint.restarts_without_progress = 0;
  CHECK(Next(after_checkpoint, E::kLost, "gone")->state == S::kRecovering);
  life = *Next(life, E::kLost, "gone");
  REQUIRE(life.state == S::kFailed);
  life = *Next(life, E::kResumed, "by the user");
  CHECK(life.restarts_without_progress == 0);
  CHECK(life.restarts == 7);
}

TEST_CASE("the first restart is at once, the others come ever later, and none later than in an hour") {
  const absl::Duration base = absl::Seconds(5);
  CHECK(BackOff(0, base) == absl::ZeroDuration());
  CHECK(BackOff(1, base) == absl::ZeroDuration());
  CHECK(BackOff(2, base) == absl::Seconds(5));
  CHECK(BackOff(3, base) == absl::Seconds(15));
  CHECK(BackOff(4, base) == absl::Seconds(45));
  CHECK(BackOff(1000, base) == absl::Hours(1));
  CHECK(BackOff(1000, absl::ZeroDuration()) == absl::ZeroDuration());
}

// Whether some sequence of events leads from `life` to an end that is `wanted`.
bool CanReach(const JobLife& life, S wanted) {
  std::set<std::pair<S, int>> seen;
  std::deque<JobLife> open = {life};
  while (!open.empty()) {
    const JobLife at = open.front();
    open.pop_front();
    if (at.state == wanted) return true;
    if (!seen.insert({at.state, at.restarts_without_progress}).second) continue;
    for (const E event : kEvents) {
      const absl::StatusOr<JobLife> next = Next(at, event, "");
      if (next.ok()) open.push_back(*next);
    }
  }
  return false;
}

TEST_CASE(
    "whatever happens, restarts stay in bounds, an end is final but for the user, and every end stays in "
    "reach",
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
      const bool resumes = event == E::kResumed && life.state != S::kDone;
      CHECK(next.ok() == (event == E::kCancelled || resumes));
      if (next.ok() && !resumes) CHECK(*next == life);
      if (!resumes) continue;
      life = *next;
      losses = 0;
      continue;
    }
    for (const S end : {S::kDone, S::kFailed, S::kCancelled}) CHECK(CanReach(life, end));
    if (!next.ok()) continue;
    losses += event == E::kLost && !WaitsForDevices(life.state) ? 1 : 0;
    life = *next;
    CHECK(life.restarts_without_progress == std::min(losses, life.max_restarts));
    CHECK(life.restarts >= life.restarts_without_progress);
    if (losses > life.max_restarts) CHECK(life.state == S::kFailed);
    if (life.state == S::kQueued) CHECK(life.restarts == 0);
    if (life.state == S::kRunning && random() % 4 == 0) {
      life.restarts_without_progress = 0;  // a checkpoint
      losses = 0;
    }
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
