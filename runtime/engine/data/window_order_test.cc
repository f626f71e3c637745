#include "runtime/engine/data/window_order.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

#include "runtime/base/progress.h"

namespace medley {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("the permutations are those of the program in README.md") {
  using Permutation = std::vector<uint32_t>;
  CHECK(EpochPermutation(10, 0, 0) == Permutation{4, 7, 0, 5, 9, 3, 6, 2, 8, 1});
  CHECK(EpochPermutation(10, 0, 1) == Permutation{4, 3, 6, 2, 8, 0, 9, 7, 1, 5});
  CHECK(EpochPermutation(10, ~uint64_t{0}, 3) == Permutation{9, 7, 1, 5, 6, 8, 3, 0, 2, 4});
  CHECK(EpochPermutation(1, 5, 0) == Permutation{0});
  const Permutation large = EpochPermutation(100000, 42, 7);
  CHECK(Permutation(large.begin(), large.begin() + 6) ==
        Permutation{80055, 22672, 10157, 1421, 64385, 59905});
  CHECK(Permutation(large.end() - 3, large.end()) == Permutation{15888, 96753, 8054});
}

TEST_CASE("who permutes many windows gives signs of progress") {
  const uint64_t before = Progress::OfProcess().count();
  EpochPermutation((3 << 20) + 5, 1, 0);
  CHECK(Progress::OfProcess().count() - before == 3);
}

WindowOrderOptions RandomOptions(uint64_t seed) {
  std::mt19937_64 random(seed);
  WindowOrderOptions options;
  options.sequence = 1 + static_cast<int>(random() % 9);
  options.global_batch_sequences = 1 + static_cast<int>(random() % 7);
  const int64_t windows = options.global_batch_sequences + static_cast<int64_t>(random() % 40);
  options.tokens = windows * options.sequence + 1 + static_cast<int64_t>(random() % options.sequence);
  options.order = random() % 2 == 0 ? DataOrder::kSequential : DataOrder::kShuffled;
  options.seed = random();
  return options;
}

TEST_CASE("an epoch reads no window twice, and all but less than a batch of them") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{200}));
  const WindowOrderOptions options = RandomOptions(seed);
  CAPTURE(seed, options.tokens, options.sequence, options.global_batch_sequences);
  auto order = WindowOrder::Create(options);
  REQUIRE(order.ok());
  const int64_t epoch = static_cast<int64_t>(seed % 3);
  std::set<int64_t> read;
  for (int64_t step = 0; step < order->steps_per_epoch(); ++step) {
    for (int index = 0; index < options.global_batch_sequences; ++index) {
      const int64_t window = order->WindowOf(epoch * order->steps_per_epoch() + step, index);
      CHECK((window + 1) * options.sequence < options.tokens);  // its last target is in the file
      CHECK(window >= 0);
      CHECK(read.insert(window).second);
    }
  }
  const int64_t left = order->windows() - static_cast<int64_t>(read.size());
  CHECK(left >= 0);
  CHECK(left < options.global_batch_sequences);
}

TEST_CASE("a step's windows do not depend on which steps were asked for before") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{100}));
  CAPTURE(seed);
  const WindowOrderOptions options = RandomOptions(seed);
  auto in_order = WindowOrder::Create(options);
  auto at_random = WindowOrder::Create(options);
  REQUIRE(in_order.ok());
  REQUIRE(at_random.ok());
  std::vector<int64_t> expected;
  const int64_t steps = 3 * in_order->steps_per_epoch();
  for (int64_t step = 0; step < steps; ++step) expected.push_back(in_order->WindowOf(step, 0));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 50; ++i) {
    const int64_t step = static_cast<int64_t>(random() % static_cast<uint64_t>(steps));
    CAPTURE(step);
    CHECK(at_random->WindowOf(step, 0) == expected[static_cast<size_t>(step)]);
  }
}

TEST_CASE("sequential order is file order, from the start again in each epoch") {
  auto order = WindowOrder::Create({.tokens = 45, .sequence = 4, .global_batch_sequences = 3});
  REQUIRE(order.ok());
  CHECK(order->windows() == 11);
  CHECK(order->steps_per_epoch() == 3);
  CHECK(order->WindowOf(0, 0) == 0);
  CHECK(order->WindowOf(1, 2) == 5);
  CHECK(order->WindowOf(2, 2) == 8);
  CHECK(order->WindowOf(3, 1) == 1);
}

TEST_CASE("epochs and seeds give different orders") {
  CHECK(EpochPermutation(1000, 1, 0) != EpochPermutation(1000, 1, 1));
  CHECK(EpochPermutation(1000, 1, 0) != EpochPermutation(1000, 2, 0));
  CHECK(EpochPermutation(1000, 0, 1) != EpochPermutation(1000, 1, 0));
}

TEST_CASE("every permutation of four windows is about as frequent") {
  std::map<std::vector<uint32_t>, int> counts;
  for (uint64_t seed = 0; seed < 24000; ++seed) ++counts[EpochPermutation(4, seed, 2)];
  REQUIRE(counts.size() == 24);
  for (const auto& [permutation, count] : counts) {
    CHECK(count > 840);  // 1,000 expected, 31 the standard deviation
    CHECK(count < 1160);
  }
}

TEST_CASE("a window needs one token more than its length") {
  CHECK(WindowCount(0, 4) == 0);
  CHECK(WindowCount(4, 4) == 0);
  CHECK(WindowCount(5, 4) == 1);
  CHECK(WindowCount(8, 4) == 1);
  CHECK(WindowCount(9, 4) == 2);
}

TEST_CASE("validation reads from the start of its file and begins again at its end") {
  CHECK(ValidationWindow(10, 4, 0, 0) == 0);
  CHECK(ValidationWindow(10, 4, 1, 3) == 7);
  CHECK(ValidationWindow(10, 4, 2, 1) == 9);
  CHECK(ValidationWindow(10, 4, 2, 2) == 0);
  CHECK(ValidationWindow(1, 4, 2, 2) == 0);
}

TEST_CASE("an order that cannot be read is refused with the reason") {
  struct Case {
    std::string name;
    WindowOrderOptions options;
    std::string cause;
  };
  const auto c = GENERATE(values<Case>({
      {"no sequence", {.tokens = 9, .sequence = 0, .global_batch_sequences = 1}, "sequence is 0"},
      {"no batch",
       {.tokens = 9, .sequence = 1, .global_batch_sequences = -1},
       "global_batch_sequences is -1"},
      {"short", {.tokens = 16, .sequence = 4, .global_batch_sequences = 4}, "3 windows of 4"},
      {"single",
       {.tokens = 5, .sequence = 4, .global_batch_sequences = 2},
       "5 tokens, which is 1 window of 4"},
      {"empty", {.tokens = 0, .sequence = 4, .global_batch_sequences = 1}, "0 windows of 4"},
      {"vast",
       {.tokens = int64_t{1} << 33,
        .sequence = 1,
        .global_batch_sequences = 1,
        .order = DataOrder::kShuffled},
       "cannot be shuffled"},
  }));
  CAPTURE(c.name);
  const auto order = WindowOrder::Create(c.options);
  REQUIRE(absl::IsInvalidArgument(order.status()));
  CHECK_THAT(std::string(order.status().message()), Contains(c.cause));
}

TEST_CASE("orders are written and read by name") {
  CHECK(ParseDataOrder(NameOf(DataOrder::kSequential)) == DataOrder::kSequential);
  CHECK(ParseDataOrder(NameOf(DataOrder::kShuffled)) == DataOrder::kShuffled);
  CHECK_FALSE(ParseDataOrder("random").has_value());
}

}  // namespace
}  // namespace medley
