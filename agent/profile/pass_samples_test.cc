#include "agent/profile/pass_samples.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

namespace medley {
namespace {

// What `work_seconds` of computing take from `start` on, beside a process that wants the core for the first
// `busy` of every `period` and shares it evenly while it does.
struct ForeignLoad {
  double period = 1, busy = 0;
  PassSample Run(double start, double work_seconds) const {
    double now = start, left = work_seconds, waited = 0;
    while (left > 1e-12) {
      const double phase = std::fmod(now, period);
      const bool shared = phase < busy;
      const double until = shared ? busy - phase : period - phase;
      const double done = std::min(left, shared ? until / 2 : until);
      const double length = shared ? 2 * done : done;
      now += std::max(length, 1e-9);
      left -= done;
      if (shared) waited += done;
    }
    return {now - start, waited};
  }
};

TEST_CASE("small noise, and a burst of up to a fifth of the time, move the middle by little", "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{300}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::normal_distribution<double> noise(0, 0.02);
  const int count = std::uniform_int_distribution<int>(10, 40)(random);
  const int burst = std::uniform_int_distribution<int>(0, count / 5)(random);
  const int first = std::uniform_int_distribution<int>(0, count - burst)(random);
  const double slowness = std::uniform_real_distribution<double>(1.5, 20)(random);
  const bool told = random() % 2 == 0;  // whether the processor says who waited
  std::vector<PassSample> samples;
  for (int i = 0; i < count; ++i) {
    PassSample sample{0.1 * (1 + noise(random)), 0};
    if (i >= first && i < first + burst) {
      if (told) sample.waited_seconds = sample.seconds * (slowness - 1);
      sample.seconds *= slowness;
    }
    samples.push_back(sample);
  }
  const Middle middle = MiddleOf(samples);
  CHECK(middle.seconds * (told && 5 * burst < count ? ForeignSlowdown(samples) : 1) ==
        Approx(0.1).epsilon(0.03));
  CHECK(middle.spread < 0.05);
}

TEST_CASE("a processor of one's own slows nothing down") {
  CHECK(ForeignSlowdown({}) == 1);
  CHECK(ForeignSlowdown({{1, 0}, {2, 0}}) == 1);
  CHECK(ForeignSlowdown({{1, 0.01}, {1, 0.02}}) == 1);
  CHECK(ForeignSlowdown({{0, 0}, {0, 1}}) == 1);
  CHECK(ForeignSlowdown({{2, 1}, {2, 1}}) == 2);
}

TEST_CASE("no time comes out longer than it was measured, whatever the kernel says that was waited for",
          "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{200}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const double waited_share = std::uniform_real_distribution<double>(0.03, 1.5)(random);
  std::uniform_real_distribution<double> noise(0.98, 1.02);
  std::vector<PassSample> samples;
  double longest = 0;
  for (int i = 0; i < 20; ++i) {
    const double seconds = 0.1 * noise(random);
    samples.push_back({seconds, waited_share * noise(random) * seconds});
    longest = std::max(longest, seconds);
  }
  const double slowdown = ForeignSlowdown(samples);
  CHECK(slowdown >= 1);
  CHECK(slowdown <= 10.001);
  CHECK(MiddleOf(samples).seconds * slowdown <= 1.05 * longest);
}

TEST_CASE("times that were measured while others had nearly all of the processor are said to be so") {
  // Rounds as a machine gave them that compiled: the kernel says that 99.7 % were waited for.
  const double slowdown = ForeignSlowdown({{1, 0.997}, {1, 0.998}, {1, 0.997}});
  CHECK(slowdown == Approx(10));
  CHECK(DoubtOfSlowdown(slowdown) == "others had the processor for 90 % of the time");
  CHECK(DoubtOfSlowdown(2) == "");
  CHECK(ForeignSlowdown({{1, 1}}) == Approx(10));  // of what was said to be a tenth of it
}

TEST_CASE("beside a load that computes half of the time, the middle foretells what training will see",
          "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{200}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto real = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  ForeignLoad load{.period = real(0.01, 0.4)};
  load.busy = load.period * real(0.4, 0.6);
  const double pass = real(0.02, 0.3);
  CAPTURE(load.period, load.busy, pass);
  double now = real(0, 1);
  std::vector<PassSample> samples, rounds;
  for (int round = 0; round < 24; ++round) {
    samples.push_back(load.Run(now, pass));
    // Other sizes and blocks.
    const PassSample others = load.Run(now + samples.back().seconds, real(0.05, 0.5));
    rounds.push_back(
        {samples.back().seconds + others.seconds, samples.back().waited_seconds + others.waited_seconds});
    now += rounds.back().seconds;
  }
  // A long training.
  const double work = 1000 * pass;
  const double training = load.Run(real(0, 1), work).seconds / 1000;
  CHECK(MiddleOf(samples).seconds * ForeignSlowdown(rounds) == Approx(training).epsilon(0.05));
  CHECK(training > 1.15 * pass);
}

TEST_CASE("a pass that is said to have waited longer than it took has taken some time") {
  CHECK(MiddleOf({{4e-6, 5e-6}, {4e-6, 8e-6}, {4e-6, 6e-6}}).seconds == Approx(4e-7));
}

TEST_CASE("one sample is its own middle, and equal ones have no spread") {
  CHECK(MiddleOf({{0.25, 0}}).seconds == 0.25);
  CHECK(MiddleOf({{0.25, 0.05}}).seconds == Approx(0.2));
  const Middle equal = MiddleOf({{2, 0}, {2, 0}, {2, 0}});
  CHECK(equal.seconds == 2);
  CHECK(equal.spread == 0);
  CHECK(MiddleOf({{1, 0}, {3, 0}}).seconds == 2);
  CHECK(MiddleOf({{0, 0}, {0, 0}}).spread == 0);
}

}  // namespace
}  // namespace medley
