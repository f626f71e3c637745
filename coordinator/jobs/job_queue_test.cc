#include "coordinator/jobs/job_queue.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

namespace medley {
namespace {

using Devices = std::vector<std::string>;

TEST_CASE("the oldest job takes all that is free if it names nothing") {
  CHECK(NextToStart({{"first", {}}, {"second", {}}}, Devices{"b/0", "a/0"}) ==
        Grant{"first", {"a/0", "b/0"}});
}

TEST_CASE("nothing starts without devices or without jobs") {
  CHECK_FALSE(NextToStart({{"first", {}}, {"second", {"a/0"}}}, Devices{}).has_value());
  CHECK_FALSE(NextToStart({}, Devices{"a/0"}).has_value());
}

TEST_CASE("a job that names its devices gets exactly these, each once") {
  CHECK(NextToStart({{"first", {"b/0", "a/0", "b/0"}}}, Devices{"a/0", "b/0", "c/0"}) ==
        Grant{"first", {"a/0", "b/0"}});
}

TEST_CASE("a job that waits for its devices holds up nobody who wants others") {
  const std::vector<WaitingJob> jobs = {{"waits", {"a/0", "b/0"}}, {"other", {"c/0"}}};
  CHECK(NextToStart(jobs, Devices{"a/0", "c/0"}) == Grant{"other", {"c/0"}});
}

TEST_CASE("a waiting job keeps the free part of what it wants") {
  const std::vector<WaitingJob> named = {{"waits", {"a/0", "b/0"}}, {"later", {"a/0"}}};
  CHECK_FALSE(NextToStart(named, Devices{"a/0"}).has_value());
  const std::vector<WaitingJob> any = {{"waits", {"a/0", "b/0"}}, {"later", {}}};
  CHECK(NextToStart(any, Devices{"a/0", "c/0"}) == Grant{"later", {"c/0"}});
  CHECK_FALSE(NextToStart(any, Devices{"a/0"}).has_value());
}

TEST_CASE("a job that wants whatever is free is not overtaken while it waits") {
  const std::vector<WaitingJob> jobs = {{"big", {}, {"a/0"}}, {"later", {"a/0"}}};
  CHECK_FALSE(NextToStart(jobs, Devices{"a/0"}).has_value());
}

TEST_CASE("a job never gets a device that it must not have, and does not keep it from others") {
  const WaitingJob real = {"real", {}, {}, {"e/0", "e/1"}}, rehearsal = {"rehearsal", {}};
  CHECK(NextToStart({real}, Devices{"a/0", "e/0"}) == Grant{"real", {"a/0"}});
  CHECK_FALSE(NextToStart({real}, Devices{"e/0", "e/1"}).has_value());
  CHECK(NextToStart({real, rehearsal}, Devices{"e/0"}) == Grant{"rehearsal", {"e/0"}});
  const WaitingJob tried = {"tried", {}, {"a/0"}, {"e/0"}};
  CHECK(NextToStart({tried, rehearsal}, Devices{"a/0", "e/0"}) == Grant{"rehearsal", {"e/0"}});
  CHECK(NextToStart({{"names", {"e/0"}, {}, {"e/0"}}}, Devices{"e/0"}) == Grant{"names", {"e/0"}});
}

TEST_CASE("a job of a higher priority goes first, among equals the older one") {
  WaitingJob late = {"late", {}}, early = {"early", {}}, urgent = {"urgent", {}};
  urgent.priority = 1;
  CHECK(NextToStart({early, late, urgent}, Devices{"a/0"})->job == "urgent");
  CHECK(NextToStart({early, late}, Devices{"a/0"})->job == "early");
  late.priority = -1;
  CHECK(NextToStart({late, early}, Devices{"a/0"})->job == "early");
}

TEST_CASE("a job takes no fewer devices than it wants at least, and no more than at most, the best of them") {
  WaitingJob job = {"job", {}};
  job.least = 2;
  CHECK_FALSE(NextToStart({job}, Devices{"a/0"}).has_value());
  CHECK(NextToStart({job}, Devices{"a/0", "b/0", "c/0"})->devices.size() == 3);
  job.most = 2;
  CHECK(NextToStart({job}, Devices{"a/0", "b/0", "c/0"})->devices == Devices{"a/0", "b/0"});
  const Devices preferred = {"c/0", "x/0", "c/0", "b/0"};
  job.preferred = preferred;
  CHECK(NextToStart({job}, Devices{"a/0", "b/0", "c/0"})->devices == Devices{"b/0", "c/0"});
  const WaitingJob later = {"later", {}};
  CHECK(NextToStart({job, later}, Devices{"a/0"}) == std::nullopt);  // it is not overtaken
}

TEST_CASE("a job that names devices, and how many of them, takes so many of those that are free") {
  WaitingJob job = {"job", {"a/0", "b/0", "c/0", "d/0"}};
  job.least = 2;
  CHECK_FALSE(NextToStart({job}, Devices{"a/0", "e/0", "f/0"}).has_value());
  CHECK(NextToStart({job}, Devices{"a/0", "c/0", "e/0"}) == Grant{"job", {"a/0", "c/0"}});
  job.most = 2;
  const Devices preferred = {"e/0", "d/0", "b/0"};
  job.preferred = preferred;
  CHECK(NextToStart({job}, Devices{"a/0", "b/0", "c/0", "d/0", "e/0"}) == Grant{"job", {"b/0", "d/0"}});
  const WaitingJob later = {"later", {}};
  CHECK(NextToStart({job, later}, Devices{"a/0", "e/0"}) == Grant{"later", {"e/0"}});
  job.tried_in_vain = {"a/0", "b/0"};
  CHECK_FALSE(NextToStart({job}, Devices{"a/0", "b/0"}).has_value());
}

TEST_CASE("a job that takes some of what is free goes on to those that it has not tried") {
  WaitingJob job = {"job", {}, {"a/0"}};
  job.most = 1;
  CHECK(NextToStart({job}, Devices{"a/0", "b/0", "c/0"}) == Grant{"job", {"b/0"}});
  const Devices preferred = {"a/0", "c/0"};
  job.preferred = preferred;
  CHECK(NextToStart({job}, Devices{"a/0", "b/0", "c/0"}) == Grant{"job", {"c/0"}});
  job.most = 2;
  job.tried_in_vain = {"a/0", "c/0"};
  CHECK(NextToStart({job}, Devices{"a/0", "b/0", "c/0"}) == Grant{"job", {"a/0", "b/0"}});
  job.tried_in_vain = {"a/0", "b/0", "c/0"};
  CHECK_FALSE(NextToStart({job}, Devices{"a/0", "b/0", "c/0"}).has_value());
}

TEST_CASE("hundreds of jobs of few devices each start on thousands that were not measured") {
  Devices free;
  for (int device = 0; device < 10'000; ++device) free.push_back(std::to_string(10'000 + device));
  std::vector<WaitingJob> jobs(200);
  for (size_t j = 0; j < jobs.size(); ++j) {
    jobs[j].id = std::to_string(j);
    jobs[j].most = 8;
  }
  for (size_t j = 0; j < jobs.size(); ++j) {
    const std::optional<Grant> grant = NextToStart(absl::MakeConstSpan(jobs).subspan(j), free);
    REQUIRE(grant.has_value());
    CHECK(*grant == Grant{jobs[j].id, {free.begin(), free.begin() + 8}});
    free.erase(free.begin(), free.begin() + 8);
  }
}

TEST_CASE("a job that could not be planned starts again only with a device it has not tried") {
  const WaitingJob job = {"big", {}, {"a/0", "b/0"}};
  CHECK_FALSE(NextToStart({job}, Devices{"a/0", "b/0"}).has_value());
  CHECK_FALSE(NextToStart({job}, Devices{"b/0"}).has_value());
  CHECK(NextToStart({job}, Devices{"b/0", "c/0"}) == Grant{"big", {"b/0", "c/0"}});
}

TEST_CASE("a job that could not be planned on the devices that it names keeps them and waits for another") {
  const WaitingJob same = {"big", {"a/0"}, {"a/0"}}, more = {"big", {"a/0", "b/0"}, {"a/0"}};
  CHECK_FALSE(NextToStart({same, {"later", {"a/0"}}}, Devices{"a/0"}).has_value());
  CHECK(NextToStart({same, {"other", {"b/0"}}}, Devices{"a/0", "b/0"}) == Grant{"other", {"b/0"}});
  CHECK(NextToStart({more}, Devices{"a/0", "b/0"}) == Grant{"big", {"a/0", "b/0"}});
}

TEST_CASE("jobs that want a common device start in the order of submission, and all start in the end",
          "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{300}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const Devices all = {"a/0", "a/1", "b/0", "c/0", "d/0"};
  std::vector<WaitingJob> waiting;
  std::map<std::string, int> submitted;
  std::map<std::string, Devices> wanted;
  for (int i = 0; i < 8; ++i) {
    WaitingJob job{"job" + std::to_string(i)};
    if (random() % 4 != 0) {
      for (const std::string& device : all) {
        if (random() % 3 == 0) job.devices.push_back(device);
      }
    }
    submitted[job.id] = i;
    wanted[job.id] = job.devices.empty() ? all : job.devices;
    waiting.push_back(job);
  }
  std::set<std::string> free(all.begin(), all.end());
  std::vector<Grant> running;
  int started = 0;
  while (started < 8) {
    const absl::Span<const WaitingJob> jobs = waiting;
    const auto grant = NextToStart(jobs, Devices(free.begin(), free.end()));
    if (!grant.has_value()) {
      // With every device free the first job starts, so nothing waits for ever.
      REQUIRE_FALSE(running.empty());
      const size_t ends = random() % running.size();
      free.insert(running[ends].devices.begin(), running[ends].devices.end());
      running.erase(running.begin() + static_cast<ptrdiff_t>(ends));
      continue;
    }
    CAPTURE(grant->job);
    REQUIRE_FALSE(grant->devices.empty());
    for (const std::string& device : grant->devices) REQUIRE(free.erase(device) == 1);
    for (const WaitingJob& other : waiting) {  // nobody who came earlier wanted any of them
      if (submitted[other.id] >= submitted[grant->job]) continue;
      for (const std::string& device : grant->devices) {
        CHECK(std::count(wanted[other.id].begin(), wanted[other.id].end(), device) == 0);
      }
    }
    std::erase_if(waiting, [&](const WaitingJob& job) { return job.id == grant->job; });
    running.push_back(*grant);
    ++started;
  }
}

}  // namespace
}  // namespace medley
