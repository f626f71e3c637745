#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "coordinator/store/store.h"
#include "coordinator/store/store_under_test.h"

namespace medley {
namespace {

// What a store has confirmed: of one write.
struct Confirmed {
  enum Kind : uint32_t { kJob, kStep, kLog, kState, kAttempt } kind;
  uint32_t job = 0;  // number
  uint32_t value = 0;
};

std::string IdOf(uint32_t job) { return "j-" + std::to_string(job); }

// Writes to the store and confirms on `pipe` what it was told is on disk, until it is killed.
[[noreturn]] void WriteForEver(const std::string& directory, uint64_t seed, int pipe) {
  std::mt19937_64 random(seed);
  auto store = Store::Open(directory);
  if (!store.ok()) _exit(1);
  const auto confirm = [pipe](const Confirmed& confirmed) {
    if (write(pipe, &confirmed, sizeof(confirmed)) != sizeof(confirmed)) _exit(1);
  };
  uint32_t job = 0, step = 0;
  for (uint32_t i = 0;; ++i) {
    if (i % 50 == 0) {
      const auto inserted = (*store)->InsertJob(SpecNamed("j"), "", 0);
      if (!inserted.ok()) _exit(1);
      job = static_cast<uint32_t>(std::stoul(inserted->id().substr(2)));
      step = 0;
      confirm({Confirmed::kJob, job, 0});
    }
    switch (random() % 4) {
      case 0: {
        std::vector<v1::StepMetrics> steps;
        for (uint64_t n = random() % 5; n > 0; --n) steps.push_back(Step(++step, 1.0));
        if (!(*store)->AppendSteps(IdOf(job), steps).ok()) _exit(1);
        confirm({Confirmed::kStep, job, step});
        break;
      }
      case 1:
        if (!(*store)->AppendLogs(IdOf(job), {Line(std::to_string(i))}).ok()) _exit(1);
        confirm({Confirmed::kLog, job, i});
        break;
      case 2: {
        auto changed = (*store)->GetJob(IdOf(job));
        if (!changed.ok()) _exit(1);
        changed->set_attempt(i);
        if (!(*store)->UpdateJob(*changed).ok()) _exit(1);
        confirm({Confirmed::kState, job, i});
        break;
      }
      default: {
        const auto attempt = (*store)->NextAttempt();
        if (!attempt.ok()) _exit(1);
        confirm({Confirmed::kAttempt, 0, static_cast<uint32_t>(*attempt)});
      }
    }
  }
}

// Starts a writer, kills it once it has confirmed `count` writes, and returns everything it has confirmed.
std::vector<Confirmed> KilledAfter(size_t count, const std::string& directory, uint64_t seed) {
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    close(pipe_ends[0]);
    WriteForEver(directory, seed, pipe_ends[1]);
  }
  close(pipe_ends[1]);
  std::vector<Confirmed> all;
  Confirmed confirmed;
  while (read(pipe_ends[0], &confirmed, sizeof(confirmed)) == sizeof(confirmed)) {
    all.push_back(confirmed);
    if (all.size() == count) kill(child, SIGKILL);
  }
  close(pipe_ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  return all;
}

TEST_CASE("what was confirmed is there after the process was killed, whenever that was", "[property]") {
  const TemporaryDirectory directory;
  uint32_t last_attempt = 0;
  std::set<uint32_t> jobs;
  for (uint64_t seed = 0; seed < 15; ++seed) {
    CAPTURE(seed);
    std::map<uint32_t, uint32_t> steps, states;
    std::map<uint32_t, std::vector<std::string>> lines;
    for (const Confirmed& confirmed : KilledAfter(1 + (seed * 37) % 200, directory.path(), seed)) {
      switch (confirmed.kind) {
        case Confirmed::kJob:
          CHECK(jobs.insert(confirmed.job).second);
          break;
        case Confirmed::kStep:
          steps[confirmed.job] = confirmed.value;
          break;
        case Confirmed::kState:
          states[confirmed.job] = confirmed.value;
          break;
        case Confirmed::kLog:
          lines[confirmed.job].push_back(std::to_string(confirmed.value));
          break;
        case Confirmed::kAttempt:
          CHECK(confirmed.value > last_attempt);
          last_attempt = confirmed.value;
      }
    }
    // The write under way when the process was killed may be there as well: hence "at least".
    const auto store = OpenStore(directory);
    for (const uint32_t job : jobs) CHECK(store->GetJob(IdOf(job)).ok());
    for (const auto& [job, last] : steps) {
      const auto found = store->ListSteps(IdOf(job), 0);
      REQUIRE(found.ok());
      CHECK(found->size() >= last);
      for (uint32_t i = 0; i < found->size(); ++i) CHECK((*found)[i].step() == i + 1);
    }
    for (const auto& [job, attempt] : states) CHECK(store->GetJob(IdOf(job))->attempt() >= attempt);
    for (const auto& [job, texts] : lines) {
      const auto found = store->ListLogs(IdOf(job), 10'000);
      REQUIRE(found.ok());
      REQUIRE(found->size() >= texts.size());
      CHECK(found->size() <= texts.size() + 1);
      for (size_t i = 0; i < texts.size(); ++i) CHECK((*found)[i].text() == texts[i]);
    }
    const auto attempt = store->NextAttempt();
    REQUIRE(attempt.ok());
    CHECK(*attempt > last_attempt);
    last_attempt = static_cast<uint32_t>(*attempt);
  }
}

TEST_CASE("a store that was killed leaves its directory free, and a live one does not") {
  const TemporaryDirectory directory;
  KilledAfter(1, directory.path(), 1);
  const auto store = OpenStore(directory);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(absl::IsFailedPrecondition(Store::Open(directory.path()).status()) ? 0 : 1);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("threads write at the same time and nothing is lost") {
  const TemporaryDirectory directory;
  const auto store = OpenStore(directory);
  constexpr int kThreads = 4, kRounds = 40;
  std::vector<std::thread> threads;
  std::vector<std::vector<uint64_t>> attempts(kThreads);
  std::vector<std::string> errors(kThreads);
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      const auto job = store->InsertJob(SpecNamed("j"), "request " + std::to_string(thread / 2), 0);
      for (uint32_t i = 1; i <= kRounds; ++i) {
        const auto attempt = store->NextAttempt();
        const absl::Status status = store->AppendSteps(job->id(), {Step(i, thread)});
        if (!attempt.ok() || !status.ok()) errors[thread] = status.ToString();
        attempts[thread].push_back(attempt.value_or(0));
        if (!store->ListSteps(job->id(), 0).ok()) errors[thread] = "cannot read";
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<uint64_t> distinct;
  for (int thread = 0; thread < kThreads; ++thread) {
    CHECK(errors[thread].empty());
    CHECK(std::is_sorted(attempts[thread].begin(), attempts[thread].end()));
    distinct.insert(attempts[thread].begin(), attempts[thread].end());
  }
  CHECK(distinct.size() == kThreads * kRounds);
  CHECK(*distinct.rbegin() == kThreads * kRounds);
  const auto jobs = store->ListJobs(10);  // two threads a request
  REQUIRE(jobs->size() == 2);
  for (const v1::Job& job : *jobs) CHECK(store->ListSteps(job.id(), 0)->size() == kRounds);
}

}  // namespace
}  // namespace medley
