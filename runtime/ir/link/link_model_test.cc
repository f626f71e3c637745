#include "runtime/ir/link/link_model.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "runtime/ir/link/link_rise.h"

namespace medley {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST_CASE("a model is straight lines, level before them and straight on after them") {
  const LinkModel model{{{10, 1}, {20, 2}, {40, 2}, {50, 7}}};
  CHECK(model.Seconds(0) == 1);
  CHECK(model.LatencySeconds() == 1);
  CHECK(model.Seconds(10) == 1);
  CHECK(model.Seconds(15) == 1.5);
  CHECK(model.Seconds(20) == 2);
  CHECK(model.Seconds(33) == 2);
  CHECK(model.Seconds(45) == 4.5);
  CHECK(model.Seconds(60) == 12);
  CHECK(model.BytesPerSecond() == 2);
}

TEST_CASE("beyond points that are level at the end larger messages go on taking longer") {
  const LinkModel model{{{8, 1}, {100, 2}, {300, 10}, {500, 10}}};
  CHECK(model.Seconds(400) == 10);
  CHECK(model.Seconds(600) == 12);  // as from 100 bytes to 500
  CHECK(model.BytesPerSecond() == 50);
  CHECK(LinkModel{{{8, 1}, {100, 1}}}.BytesPerSecond() == kInfinity);
  // The largest two, of which the larger seemed the faster.
  const LinkModel fit = FitLinkModel({{1, 1}, {2, 2}, {4, 5}, {8, 3}}, 0, 4);
  CHECK(fit.points.back() == LinkPoint{8, 4});
  CHECK(fit.Seconds(80) > 8 * fit.Seconds(8) / 2);
}

TEST_CASE("models of few points") {
  CHECK(LinkModel{}.Seconds(1e9) == 0);
  CHECK(LinkModel{}.BytesPerSecond() == kInfinity);
  const LinkModel alone{{{100, 2}}};
  CHECK(alone.Seconds(10) == 2);
  CHECK(alone.Seconds(300) == 6);
  CHECK(alone.BytesPerSecond() == 50);
  const LinkModel level{{{0, 3}}};
  CHECK(level.Seconds(1e12) == 3);
  CHECK(level.BytesPerSecond() == kInfinity);
  CHECK(LinkModel::Line(3, kInfinity) == level);
}

TEST_CASE("a line takes its latency and its bytes at its rate, to the last digits") {
  for (const double latency : {0.0, 1e-7, 5e-5, 0.3}) {
    for (const double rate : {1e3, 1.25e5, 2e9, 3e11, 1e18}) {
      const LinkModel line = LinkModel::Line(latency, rate);
      CAPTURE(latency, rate);
      CHECK(CheckLinkModel(line).ok());
      CHECK(line.LatencySeconds() == latency);
      CHECK(line.BytesPerSecond() == Approx(rate).epsilon(1e-12));
      for (const double bytes : {8.0, 4096.0, 1e6, 3e10}) {
        CHECK(line.Seconds(bytes) == Approx(latency + bytes / rate).epsilon(1e-12));
      }
    }
  }
}

// A link as it might be: level, then lines of other slopes, never falling.
LinkModel RandomModel(std::mt19937_64& random) {
  std::uniform_real_distribution<double> real(0, 1);
  LinkModel model;
  double bytes = 8, seconds = std::pow(10, -6 + 3 * real(random)), rate = std::pow(10, 6 + 4 * real(random));
  const int points = 2 + static_cast<int>(random() % 3);
  for (int i = 0; i < points; ++i) {
    model.points.push_back({bytes, seconds});
    const double next = bytes * std::pow(4, 1 + 5 * real(random));
    rate *= std::pow(4, 2 * real(random) - 1);
    seconds += (next - bytes) / rate;
    bytes = next;
  }
  return model;
}

// Powers of two, so that the corners of a model are met closely.
std::vector<LinkPoint> SampleOf(const LinkModel& model, double noise, int times, std::mt19937_64& random) {
  std::normal_distribution<double> normal(0, noise);
  std::vector<LinkPoint> samples;
  for (double bytes = 8; bytes <= (1 << 26); bytes *= 2) {
    for (int i = 0; i < times; ++i)
      samples.push_back({bytes, model.Seconds(bytes) * std::exp(normal(random))});
  }
  std::shuffle(samples.begin(), samples.end(), random);
  return samples;
}

TEST_CASE("the fit of exact samples is within the tolerance with few points") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const LinkModel truth = RandomModel(random);
    const std::vector<LinkPoint> samples = SampleOf(truth, 0, 1, random);
    const LinkModel fit = FitLinkModel(samples, 0.05, 16);
    CHECK(CheckLinkModel(fit).ok());
    CHECK(GreatestRelativeError(fit, samples) <= 0.05);
    // A corner between two samples may take a point on either side.
    CHECK(fit.points.size() <= 2 * truth.points.size());
    for (double bytes = 5; bytes < 4 << 26; bytes *= 1.37) {
      CAPTURE(bytes);
      CHECK(fit.Seconds(bytes) == Approx(truth.Seconds(bytes)).epsilon(0.4));
    }
  }
}

TEST_CASE("a fit through noise is nearer to the truth than the noise") {
  double worst = 0, sum = 0;
  int count = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const LinkModel truth = RandomModel(random);
    const LinkModel fit = FitLinkModel(SampleOf(truth, 0.1, 9, random), 0.08, 12);
    CHECK(CheckLinkModel(fit).ok());
    CHECK(fit.points.size() <= 12);
    for (double bytes = 8; bytes < 1e8; bytes *= 1.37) {
      const double error = std::abs(fit.Seconds(bytes) / truth.Seconds(bytes) - 1);
      worst = std::max(worst, error);
      sum += error;
      ++count;
    }
  }
  CAPTURE(worst, sum / count);
  CHECK(worst < 0.4);
  CHECK(sum / count < 0.05);
}

TEST_CASE("no fit with fewer points on the samples is within the tolerance") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    std::vector<LinkPoint> samples;
    double bytes = 1, seconds = 1;
    for (int i = 0; i < 8; ++i) {
      samples.push_back({bytes, seconds});
      bytes += 1 + static_cast<double>(random() % 10);
      seconds += static_cast<double>(random() % 5);
    }
    const double tolerance = 0.1;
    const LinkModel fit = FitLinkModel(samples, tolerance, 8);
    CHECK(GreatestRelativeError(fit, samples) <= tolerance);
    // All sets of samples that the last one is in.
    size_t fewest = 8;
    double least_of_three = kInfinity;
    for (unsigned set = 128; set < 256; ++set) {
      LinkModel model;
      for (int i = 0; i < 8; ++i) {
        if ((set >> i) & 1) model.points.push_back(samples[i]);
      }
      const double error = GreatestRelativeError(model, samples);
      if (error <= tolerance) fewest = std::min(fewest, model.points.size());
      if (model.points.size() <= 3) least_of_three = std::min(least_of_three, error);
    }
    CHECK(fit.points.size() == fewest);
    const LinkModel three = FitLinkModel(samples, 0, 3);
    CHECK(three.points.size() <= 3);
    CHECK(GreatestRelativeError(three, samples) == Approx(least_of_three));
  }
}

TEST_CASE("samples of one size count by their median, and what falls is made level") {
  CHECK(FitLinkModel({}, 0.1, 4).points.empty());
  CHECK(FitLinkModel({{-1, 2}, {3, kInfinity}, {NAN, 1}}, 0.1, 4).points.empty());
  CHECK(FitLinkModel({{5, 9}, {5, 1}, {5, 2}}, 0.1, 4) == LinkModel{{{5, 2}}});
  CHECK(FitLinkModel({{1, 4}, {2, 2}, {4, 9}}, 0, 4) == LinkModel{{{2, 3}, {4, 9}}});
  CHECK(FitLinkModel({{1, 4}, {2, 4}, {4, 4}}, 0, 4) == LinkModel{{{4, 4}}});
}

TEST_CASE("a model that makes no sense is refused by its point") {
  const auto refusal = [](std::vector<LinkPoint> points) {
    const absl::Status status = CheckLinkModel({std::move(points)});
    CHECK(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  CHECK(CheckLinkModel({}).ok());
  CHECK(CheckLinkModel({{{0, 0}, {1, 0}}}).ok());
  CHECK(refusal({{1, 2}, {1, 3}}) == "[1].bytes: 1 after 1; must ascend");
  CHECK(refusal({{1, 2}, {2, 1.5}}) == "[1].seconds: 1.5 after 2; must not fall");
  CHECK(refusal({{-1, 2}}) == "[0].bytes: -1; must be finite and not negative");
  CHECK(refusal({{1, 2}, {2, 3}, {3, kInfinity}}) == "[2].seconds: inf; must be finite and not negative");
}

TEST_CASE("no message occupies a link for less than its rise says") {
  const LinkModel model{{{0, 1}, {8, 1}, {100, 2}, {1000, 5}, {2000, 12}}};
  LinkRise rise;
  rise.Cover(LinkCost{model, LinkModel::Line(1, 10)});
  CHECK(rise.level_bytes == 8);
  CHECK(rise.bytes_per_second == Approx(248));  // (1000 - 8) / (5 - 1)
  for (const double bytes : {0.0, 8.0, 50.0, 100.0, 700.0, 1000.0, 1500.0, 2000.0, 1e5}) {
    CAPTURE(bytes);
    CHECK(model.Seconds(bytes) - model.LatencySeconds() >=
          (bytes - rise.level_bytes) / rise.bytes_per_second - 1e-9);
  }
}

}  // namespace
}  // namespace medley
