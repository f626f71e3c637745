#include "comm/reshard/reshard_plan.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "comm/reshard/piece.h"
#include "comm/reshard/random_problem.h"

namespace medley {
namespace {

ReshardPlan Plan(const ReshardProblem& problem, int64_t message_bytes) {
  const absl::StatusOr<ReshardPlan> plan = PlanReshard(problem, message_bytes);
  INFO(plan.status().ToString());
  REQUIRE(plan.ok());
  return *plan;
}

std::vector<ReshardSlice> Cut(int first_rank, const std::vector<int64_t>& cuts) {
  std::vector<ReshardSlice> slices;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    slices.push_back({first_rank + static_cast<int>(i), cuts[i], cuts[i + 1]});
  }
  return slices;
}

std::vector<ReshardSlice> Replicated(int first_rank, int degree, int64_t columns) {
  std::vector<ReshardSlice> slices;
  for (int i = 0; i < degree; ++i) slices.push_back({first_rank + i, 0, columns});
  return slices;
}

TEST_CASE("every element reaches every rank that needs it once, from one that has it", "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{300}));
  CAPTURE(seed);
  const ReshardProblem problem = RandomReshardProblem(seed, 20);
  const int64_t message_bytes = static_cast<int64_t>(1 + seed * seed % 3000);
  const ReshardPlan plan = Plan(problem, message_bytes);
  // How often each element is at each rank, by rank.
  std::map<int, std::vector<int>> have;
  const auto fill = [&](int rank, int64_t column_begin, int64_t column_end, int64_t begin, int64_t end,
                        auto visit) {
    std::vector<int>& counts = have[rank];
    counts.resize(problem.rows * problem.columns);
    const int64_t width = column_end - column_begin;
    for (int64_t e = begin; e < end; ++e)
      visit(counts[e / width * problem.columns + column_begin + e % width]);
  };
  for (const ReshardSlice& slice : problem.senders) {
    fill(slice.rank, slice.column_begin, slice.column_end, 0,
         problem.rows * (slice.column_end - slice.column_begin), [](int& count) { count = 1; });
  }
  bool all_there = true;
  for (size_t i = 0; i < plan.messages.size(); ++i) {
    const ReshardMessage& message = plan.messages[i];
    CHECK(message.elements() > 0);
    CHECK(message.elements() * problem.element_bytes <= std::max(message_bytes, problem.element_bytes));
    const auto for_each = [&](int rank, auto visit) {
      fill(rank, message.column_begin, message.column_end, message.element_begin, message.element_end, visit);
    };
    for_each(message.from, [&](int& count) { all_there = all_there && count == 1; });
    for_each(message.to, [](int& count) { ++count; });
    if (message.crosses()) continue;
    REQUIRE(message.passes_on < static_cast<int64_t>(i));
    const ReshardMessage& brought = plan.messages[message.passes_on];
    CHECK(brought.crosses());
    CHECK(brought.to == message.from);
    CHECK(std::tie(brought.column_begin, brought.column_end, brought.element_begin, brought.element_end) ==
          std::tie(message.column_begin, message.column_end, message.element_begin, message.element_end));
  }
  CHECK(all_there);
  for (const ReshardSlice& slice : problem.receivers) {
    std::vector<int> expected(problem.rows * problem.columns);
    for (int64_t row = 0; row < problem.rows; ++row) {
      for (int64_t column = slice.column_begin; column < slice.column_end; ++column) {
        expected[row * problem.columns + column] = 1;
      }
    }
    have[slice.rank].resize(expected.size());
    CHECK(have[slice.rank] == expected);
  }
  CHECK(MeasureReshard(plan).crossing_bytes == problem.rows * problem.columns * problem.element_bytes);
}

TEST_CASE("no rank carries all, unlike the leaders of a gather, one send and a broadcast") {
  // 4 ranks to 2 and back, cut and replicated: every byte crosses once, as with leaders, but leaders carry
  // all.
  const int64_t rows = 512, columns = 1000, tensor = rows * columns * 2;
  struct Case {
    std::vector<ReshardSlice> senders, receivers;
    int64_t busiest_sender, busiest_receiver, inside;
  };
  const std::vector<Case> cases = {
      {Cut(0, {0, 250, 500, 750, 1000}), Cut(4, {0, 500, 1000}), tensor / 4, tensor / 2, 0},
      {Cut(0, {0, 250, 500, 750, 1000}), Replicated(4, 2, columns), tensor / 4, tensor / 2, tensor},
      {Replicated(0, 2, columns), Replicated(4, 4, columns), tensor / 2, tensor / 4, 3 * tensor},
      {Replicated(0, 2, columns), Cut(4, {0, 100, 400, 1000}), tensor / 2, tensor * 6 / 10, 0},
      {Cut(0, {0, 900, 1000}), Replicated(4, 4, columns), tensor * 9 / 10, tensor / 4, 3 * tensor},
  };
  const size_t index = GENERATE(range(size_t{0}, size_t{5}));
  CAPTURE(index);
  const ReshardPlan plan = Plan({rows, columns, 2, cases[index].senders, cases[index].receivers}, 64 << 10);
  const ReshardVolume volume = MeasureReshard(plan);
  const int64_t leaders_crossing = tensor, leaders_busiest = tensor;
  // Each receiver takes what it needs by itself.
  const int64_t everyone_fetches = tensor + cases[index].inside;
  CHECK(volume.crossing_bytes == leaders_crossing);
  CHECK(volume.crossing_bytes <= everyone_fetches);
  CHECK(volume.busiest_sender_bytes == cases[index].busiest_sender);
  CHECK(volume.busiest_receiver_bytes == cases[index].busiest_receiver);
  CHECK(std::max(volume.busiest_sender_bytes, volume.busiest_receiver_bytes) < leaders_busiest);
  CHECK(volume.inside_bytes == cases[index].inside);
}

TEST_CASE("ranks with slower links carry less where there is a choice") {
  ReshardProblem problem{100, 100, 4, Replicated(0, 3, 100), Replicated(3, 2, 100)};
  problem.senders[0].weight = 25;
  problem.senders[1].weight = 0xFFFFFFFF;
  problem.senders[2].weight = 0xFFFFFFFF;
  problem.receivers[0].weight = 1;
  problem.receivers[1].weight = 3;
  std::map<int, int64_t> sent, taken;
  for (const ReshardMessage& message : Plan(problem, 1 << 20).messages) {
    if (!message.crosses()) continue;
    sent[message.from] += message.elements();
    taken[message.to] += message.elements();
  }
  CHECK(sent[0] == 0);
  CHECK(sent[1] == 5000);
  CHECK(sent[2] == 5000);
  CHECK(taken[3] == 2500);
  CHECK(taken[4] == 7500);
}

TEST_CASE("a problem that cannot be is refused by name") {
  const ReshardProblem good{10, 100, 4, Cut(0, {0, 50, 100}), Replicated(2, 2, 100)};
  REQUIRE(PlanReshard(good, 1000).ok());
  const auto refused = [](ReshardProblem problem, int64_t message_bytes, const std::string& words) {
    const absl::Status status = PlanReshard(problem, message_bytes).status();
    CAPTURE(status.ToString(), words);
    CHECK(absl::IsInvalidArgument(status));
    CHECK_THAT(std::string(status.message()), Catch::Contains(words));
  };
  const auto with = [&](auto change) {
    ReshardProblem problem = good;
    change(problem);
    return problem;
  };
  refused(good, 0, "message_bytes is 0");
  refused(with([](auto& p) { p.rows = int64_t{1} << 40; }), 1, "2^48");
  refused(with([](auto& p) { p.rows = int64_t{1} << 30; }), 1, "message_bytes is 1");
  refused(with([](auto& p) { p.rows = -1; }), 1, "rows is -1");
  refused(with([](auto& p) { p.element_bytes = 0; }), 1, "element_bytes is 0");
  refused(with([](auto& p) { p.receivers[1].rank = 0; }), 1,
          "receiver's slice of rank 0: the rank is there twice");
  refused(with([](auto& p) { p.senders[1].rank = -2; }), 1, "negative");
  refused(with([](auto& p) { p.senders[1].weight = 0; }), 1, "sender's slice of rank 1: weight is 0");
  refused(with([](auto& p) { p.senders[1].column_end = 101; }), 1, "[50, 101) are not within [0, 100)");
  refused(with([](auto& p) { p.senders[1].column_begin = 60; }), 1, "column 50 is needed by rank 2");
  refused(with([](auto& p) { p.senders.clear(); }), 1, "column 0 is needed by rank 2");
}

TEST_CASE("pieces are packed and unpacked as one reads them, and known where they lie in one piece",
          "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{300}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const int64_t rows = 1 + random() % 6, width = 1 + random() % 6, left = random() % 3, right = random() % 3;
  const int64_t begin = random() % (rows * width), end = begin + 1 + random() % (rows * width - begin);
  const int64_t slice_width = left + width + right;
  const ReshardSlice slice{0, 10, 10 + slice_width};
  const Piece piece({0, 1, 10 + left, 10 + left + width, begin, end}, slice, /*element_bytes=*/1);
  std::vector<std::byte> memory(rows * slice_width), expected, packed(piece.bytes()), back(memory.size());
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i + 1);
  std::vector<std::byte> expected_back(memory.size());
  for (int64_t e = begin; e < end; ++e) {
    const int64_t at = e / width * slice_width + left + e % width;
    expected.push_back(memory[at]);
    expected_back[at] = memory[at];
  }
  REQUIRE(piece.bytes() == expected.size());
  piece.Pack(memory, packed.data());
  CHECK(packed == expected);
  piece.Unpack(packed.data(), absl::MakeSpan(back));
  CHECK(back == expected_back);
  const auto in_one = std::search(memory.begin(), memory.end(), expected.begin(), expected.end());
  CHECK(piece.contiguous_at().has_value() == (in_one != memory.end()));
  if (piece.contiguous_at().has_value()) CHECK(*piece.contiguous_at() == size_t(in_one - memory.begin()));
}

}  // namespace
}  // namespace medley
