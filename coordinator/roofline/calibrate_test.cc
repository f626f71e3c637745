#include "coordinator/roofline/calibrate.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

namespace medley {
namespace {

// A made-up device: flops over its rate, bytes over its bandwidth, and an overhead.
double Predicted(const Calibration& at, double flops, double bytes) {
  return flops / (300e12 * at.matmul_share) + bytes / (2e12 * at.memory_share) + at.step_seconds;
}

std::vector<Measurement> Measurements(const Calibration& truth, int count, uint64_t seed, double noise) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> power(0, 3);
  std::normal_distribution<double> error(0, noise);
  std::vector<Measurement> measurements;
  for (int i = 0; i < count; ++i) {
    const double flops = 1e11 * std::pow(10, power(random)), bytes = 1e9 * std::pow(10, power(random));
    measurements.push_back({Predicted(truth, flops, bytes) * std::exp(error(random)),
                            [flops, bytes](const Calibration& at) { return Predicted(at, flops, bytes); }});
  }
  return measurements;
}

TEST_CASE("coefficients are found from measurements of which they are the truth") {
  const uint64_t seed = GENERATE(1, 2, 3);
  CAPTURE(seed);
  Calibration truth;
  truth.matmul_share = 0.55;
  truth.memory_share = 0.9;
  truth.step_seconds = 5e-3;
  const Calibration found = Calibrate({}, Measurements(truth, 200, seed, 0.01));
  CHECK(found.matmul_share == Approx(truth.matmul_share).epsilon(0.03));
  CHECK(found.memory_share == Approx(truth.memory_share).epsilon(0.03));
  CHECK(found.step_seconds == Approx(truth.step_seconds).epsilon(0.05));
}

TEST_CASE("what measurements say nothing about stays where it was") {
  const Calibration start;
  const Calibration found = Calibrate(start, Measurements({.matmul_share = 0.5}, 50, 4, 0.01));
  CHECK(found.exchange_share == Approx(start.exchange_share));
  CHECK(found.reserved_bytes == Approx(start.reserved_bytes));
  CHECK(Calibrate(start, {}) == start);
}

TEST_CASE("one measurement bends what is well known less than what is not") {
  const Calibration start;
  const Calibration found =
      Calibrate(start, Measurements({.matmul_share = 0.5, .step_seconds = 1e-2}, 1, 5, 0));
  const auto moved = [&](double Calibration::*value) {
    return std::abs(std::log(found.*value / start.*value));
  };
  CHECK(moved(&Calibration::step_seconds) > moved(&Calibration::memory_share));
}

TEST_CASE("a few measurements that are far off do not carry the rest with them") {
  Calibration truth;
  truth.matmul_share = 0.6;
  std::vector<Measurement> measurements = Measurements(truth, 200, 6, 0.01);
  for (int i = 0; i < 10; ++i) measurements[i].value *= 10;
  CHECK(Calibrate({}, measurements).matmul_share == Approx(0.6).epsilon(0.05));
}

}  // namespace
}  // namespace medley
