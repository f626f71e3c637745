// How evenly this machine's first two cores go, which shared hosts do not let them: each computes the same little thing again and
// again, from its own first cache, so that neither takes anything from the other. Had each its share of work at a time, by its mean
// speed, and waited for the other, so much of what both do would be left:
//   lockstep_efficiency_1ms, _10ms, _100ms, _1s   by the time that a share takes
//   core_speed_spread                             of single rounds, ninetieth percentile over tenth, of the worse core
// What is missing to one is lost to every plan whose shares are fixed for that long: a layer's, a step's.
//   lockstep [--seconds=10]
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "runtime/base/allowed_cores.h"

namespace medley {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kRoundSeconds = 1e-4;

// Of values in the first cache, rounds times over. Returns something that depends on all of it.
float Compute(const std::vector<float>& values, int rounds) {
  float sums[32] = {};
  for (int round = 0; round < rounds; ++round)
    for (size_t at = 0; at + 32 <= values.size(); at += 32)
      for (size_t i = 0; i < 32; ++i) sums[i] = sums[i] * 0.5f + values[at + i];
  float sum = 0;
  for (float value : sums) sum += value;
  return sum;
}

// When each round of about a tenth of a millisecond was done, in seconds since the first began; on a core of its own.
std::vector<double> RoundsOnCore(int core, double seconds, std::atomic<int>& ready) {
  if (SetAllowedCores(0, {core}) != 0) std::cerr << "# no thread can be kept on core " << core << "\n";
  const std::vector<float> values(1024, 1.0f);
  volatile float kept = 0;
  const auto since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  int rounds = 100;
  for (;; rounds *= 2) {
    const Clock::time_point begin = Clock::now();
    kept = kept + Compute(values, rounds);
    if (since(begin) > kRoundSeconds / 2) break;
  }
  std::vector<double> done;
  done.reserve(static_cast<size_t>(seconds / kRoundSeconds * 4));
  ++ready;
  while (ready < 2) std::this_thread::yield();
  for (const Clock::time_point begin = Clock::now(); done.empty() || done.back() < seconds;) {
    kept = kept + Compute(values, rounds);
    done.push_back(since(begin));
  }
  return done;
}

// What is left where either core does what it does in so many seconds on average, and then waits for the other.
double Efficiency(const std::vector<double>& a, const std::vector<double>& b, double share_seconds) {
  const auto rounds = [&](const std::vector<double>& done) {
    return share_seconds * done.size() / done.back();
  };
  // When so many rounds were done, parts of one counted.
  const auto at = [](const std::vector<double>& done, double round) {
    const size_t whole = static_cast<size_t>(round);
    const double before = whole > 0 ? done[whole - 1] : 0;
    return before + (round - static_cast<double>(whole)) * (whole < done.size() ? done[whole] - before : 0);
  };
  double waited_for = 0, worked = 0;
  for (int share = 0; (share + 1) * share_seconds <= std::min(a.back(), b.back()) * 0.999; ++share) {
    double seconds[2];
    for (auto [i, done] : {std::pair(0, &a), std::pair(1, &b)})
      seconds[i] = at(*done, rounds(*done) * (share + 1)) - at(*done, rounds(*done) * share);
    waited_for += std::max(seconds[0], seconds[1]);
    worked += (seconds[0] + seconds[1]) / 2;
  }
  return waited_for > 0 ? worked / waited_for : 1;
}

double Spread(const std::vector<double>& done) {
  std::vector<double> rounds;
  for (size_t i = 1; i < done.size(); ++i) rounds.push_back(done[i] - done[i - 1]);
  if (rounds.empty()) return 1;
  std::sort(rounds.begin(), rounds.end());
  return rounds[rounds.size() * 9 / 10] / rounds[rounds.size() / 10];
}

int Main(int argc, char** argv) {
  CLI::App app("How evenly two cores of this machine go");
  double seconds = 10;
  app.add_option("--seconds", seconds, "to compute for")
      ->check(CLI::Range(0.1, 600.0))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  std::vector<int> cores;
  if (GetAllowedCores(0, cores) != 0 || cores.size() < 2) {
    std::cerr << "needs two cores\n";
    return 1;
  }
  std::atomic<int> ready = 0;
  std::vector<double> a, b;
  std::thread other([&] { b = RoundsOnCore(cores[1], seconds, ready); });
  a = RoundsOnCore(cores[0], seconds, ready);
  other.join();
  for (auto [name, share] :
       {std::pair("1ms", 1e-3), std::pair("10ms", 1e-2), std::pair("100ms", 0.1), std::pair("1s", 1.0)})
    if (share < seconds) std::printf("lockstep_efficiency_%s %.3f\n", name, Efficiency(a, b, share));
  std::printf("core_speed_spread %.2f\n", std::max(Spread(a), Spread(b)));
  return 0;
}

}  // namespace
}  // namespace medley

int main(int argc, char** argv) { return medley::Main(argc, argv); }
