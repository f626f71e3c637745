#include "agent/profile/pass_judgement.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

namespace medley {
namespace {

const ModelWork kWork = {
    .layer = {.flops = 2e10, .bytes = 1e7}, .head = {.flops = 1e10, .bytes = 1e7}, .bytes_per_second = 1e10};

// A device with some overhead a pass and up to 2 % of noise.
std::vector<MicroBatchTimes> Sound(std::mt19937_64& random, const std::vector<int>& windows) {
  const auto real = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  const double rate = std::exp(real(std::log(1e10), std::log(1e14)));
  const double layer = kWork.layer.flops / rate, head = kWork.head.flops / rate * real(0.7, 3);
  const double overhead = layer * real(0, 3);  // a device that a small micro-batch does not fill
  const double ratio = real(1, 3.5);
  std::vector<MicroBatchTimes> sizes;
  for (const int count : windows) {
    const auto pass = [&](double seconds, double backward) {
      const double whole = (overhead + seconds * count) * (1 + real(-0.02, 0.02));
      return MeasuredPass{.forward_seconds = whole / (1 + backward),
                          .backward_seconds = whole * backward / (1 + backward),
                          .spread = 0.02};
    };
    sizes.push_back({.micro_batch_sequences = count,
                     .embedding = {1e-6 * layer, 1e-6 * layer},
                     .layer = pass(layer, ratio),
                     .head = pass(head, 0.02)});
  }
  return sizes;
}

TEST_CASE("nothing speaks against what a device may well take", "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{300}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const std::vector<TimingDoubt> doubts = DoubtsOf(Sound(random, {1, 2, 4, 8, 16}), kWork);
  for (const TimingDoubt& doubt : doubts) FAIL_CHECK(doubt.index << ": " << doubt.why);
}

TEST_CASE("fifteen times too slow at one size is found, at that size", "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{200}));
  std::mt19937_64 random(seed);
  const std::vector<int> windows =
      seed % 2 == 0 ? std::vector<int>{1, 2, 4} : std::vector<int>{1, 2, 4, 8, 16};
  std::vector<MicroBatchTimes> sizes = Sound(random, windows);
  const int wrong = static_cast<int>(random() % windows.size());
  const bool head = random() % 3 == 0;
  CAPTURE(seed, wrong, head);
  MeasuredPass& pass = head ? sizes[wrong].head : sizes[wrong].layer;
  pass.forward_seconds *= 15;
  pass.backward_seconds *= 15;
  const std::vector<TimingDoubt> doubts = DoubtsOf(sizes, kWork);
  const TimedBlock block = head ? TimedBlock::kHead : TimedBlock::kLayer;
  const auto found = std::count_if(doubts.begin(), doubts.end(), [&](const TimingDoubt& d) {
    return d.index == wrong && d.block == block;
  });
  CHECK(found == 1);
  for (const TimingDoubt& doubt : doubts) CHECK((doubt.index == wrong || doubt.block != block));
}

TEST_CASE("of a single size, its work and the ratio of its passes are all there is to go by") {
  std::mt19937_64 random(7);
  std::vector<MicroBatchTimes> sizes = Sound(random, {2});
  CHECK(DoubtsOf(sizes, kWork).empty());
  MicroBatchTimes slow = sizes[0];
  slow.layer.forward_seconds *= 150;
  slow.layer.backward_seconds *= 150;
  REQUIRE(DoubtsOf({slow}, kWork).size() == 1);
  CHECK_THAT(DoubtsOf({slow}, kWork)[0].why, Catch::Contains("at the best rates seen"));
  MicroBatchTimes lopsided = sizes[0];
  lopsided.layer.forward_seconds = 2 * lopsided.layer.backward_seconds;
  REQUIRE(DoubtsOf({lopsided}, kWork).size() == 1);
  CHECK_THAT(DoubtsOf({lopsided}, kWork)[0].why, Catch::Contains("0.5 times its forward"));
}

TEST_CASE("what was not measured is not judged, and what takes no time is of no account") {
  std::mt19937_64 random(8);
  std::vector<MicroBatchTimes> sizes = Sound(random, {1, 2, 4});
  sizes[2].layer.forward_seconds *= 100;
  sizes[2].extrapolated = true;
  sizes[0].embedding = {1e-9, 1e-9};
  sizes[1].embedding = {1e-12, 1e-12};
  CHECK(DoubtsOf(sizes, kWork).empty());
}

TEST_CASE("the spread of a size is that of its widest pass of account") {
  MicroBatchTimes times{
      .embedding = {1e-6, 1e-6, 0, 0.9}, .layer = {1, 2, 1, 0.03}, .head = {1, 0.1, 0, 0.05}};
  CHECK(times.spread(2) == 0.05);
  CHECK(times.spread(100) == 0.03);  // the head is less than a twentieth of the whole
}

}  // namespace
}  // namespace medley
