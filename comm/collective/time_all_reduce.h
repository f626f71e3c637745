#pragma once
// For the rivals' programs too (tests/perf/comm), so it needs nothing but the standard library.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

// One rank's median seconds of `iterations` sums of `bytes` of floats in place; four to warm up; the vector
// is filled anew before each; no barrier between them. Ends the process where a sum is wrong. Compile it with
// -O3 everywhere: ranks that share a core wait for each other's filling.
[[gnu::noinline]] inline double MedianSeconds(size_t bytes, int iterations, int ranks,
                                              const std::function<void(std::vector<float>&)>& all_reduce) {
  std::vector<float> values(bytes / sizeof(float));
  std::vector<double> seconds;
  for (int i = -4; i < iterations; ++i) {
    std::fill(values.begin(), values.end(), 1.0f);
    const auto start = std::chrono::steady_clock::now();
    all_reduce(values);
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    if (i >= 0) seconds.push_back(passed.count());
  }
  for (const float value : values) {
    if (value == static_cast<float>(ranks)) continue;
    std::fprintf(stderr, "a sum is %g, not %d\n", value, ranks);
    std::exit(1);
  }
  std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
  return seconds[seconds.size() / 2];
}
