#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <map>

#include "runtime/ir/collective/all_reduce_schedule.h"
#include "runtime/ir/collective/check_schedule.h"
#include "runtime/ir/collective/halving_doubling_schedule.h"
#include "runtime/ir/collective/random_collective.h"
#include "runtime/ir/collective/ring_schedule.h"
#include "runtime/ir/collective/run_serially.h"

namespace medley {
namespace {

using Vectors = std::vector<std::vector<float>>;

// Member i gives 2^i, so that each sum says who is in it, and how often.
Vectors OneBitEach(int members, int64_t elements) {
  Vectors values;
  for (int i = 0; i < members; ++i) values.emplace_back(elements, static_cast<float>(1 << i));
  return values;
}

int64_t RandomElements(Random& random) {
  switch (RandomBelow(random, 4)) {
    case 0:
      return RandomBelow(random, 4);
    case 1:
      return RandomBelow(random, 40);
    case 2:
      return 1000 + RandomBelow(random, 1000);
    default:
      return 300000 + RandomBelow(random, 300000);  // several pieces of a hierarchy
  }
}

void RequireValid(const CollectiveSchedule& schedule) {
  const absl::Status valid = CheckSchedule(schedule);
  INFO(valid.ToString());
  REQUIRE(valid.ok());
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

TEST_CASE("every all-reduce is valid, and ends with each contribution once at every member", "[property]") {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const int members = 1 + RandomBelow(random, 16);
    const int64_t elements = RandomElements(random);
    const CollectiveChoice choice = RandomChoice(random, members);
    CAPTURE(seed, members, elements, NameOf(choice.algorithm));
    const auto schedule = AllReduceSchedule(members, elements, choice);
    REQUIRE(schedule.ok());
    RequireValid(*schedule);
    Vectors values = OneBitEach(members, elements);
    REQUIRE(RunSerially(*schedule, WireType::kF32, values).ok());
    const std::vector<float> want(elements, static_cast<float>((1 << members) - 1));
    for (const std::vector<float>& sum : values) REQUIRE(sum == want);
  }
}

TEST_CASE("members end with the same bits, rounded on the wire or not", "[property]") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const int members = 2 + RandomBelow(random, 15);
    const int64_t elements = 1 + RandomBelow(random, 3000);
    const CollectiveChoice choice = RandomChoice(random, members);
    const WireType wire = seed % 2 == 0 ? WireType::kBf16 : WireType::kF32;
    CAPTURE(seed, members, elements, NameOf(choice.algorithm));
    Vectors values;
    std::vector<double> exact(elements), magnitude(elements);
    for (int i = 0; i < members; ++i) {
      values.push_back(RandomFloats(random, elements));
      for (int64_t k = 0; k < elements; ++k) {
        exact[k] += values[i][k];
        magnitude[k] += std::abs(values[i][k]);
      }
    }
    REQUIRE(RunSerially(*AllReduceSchedule(members, elements, choice), wire, values).ok());
    for (const std::vector<float>& sum : values) REQUIRE(SameBits(sum, values[0]));
    // Each of the additions rounds by half a unit in the last place of 8 or 24 bits.
    const double rounding = (members + 1) * (wire == WireType::kBf16 ? 0x1p-8 : 0x1p-23);
    for (int64_t k = 0; k < elements; ++k)
      REQUIRE(std::abs(values[0][k] - exact[k]) <= rounding * magnitude[k]);
  }
}

TEST_CASE("a reduce-scatter leaves each member its slice, and an all-gather spreads them", "[property]") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Random random(seed);
    const int members = 1 + RandomBelow(random, 16);
    const int64_t elements = RandomBelow(random, 100);
    const GroupShape shape = RandomShape(random, members);
    CAPTURE(seed, members, elements);
    const std::vector<ElementRange> slices = OwnedSlices(elements, members, shape.shares);

    const CollectiveSchedule scatter = RingReduceScatter(members, elements, shape);
    RequireValid(scatter);
    Vectors values = OneBitEach(members, elements);
    REQUIRE(RunSerially(scatter, WireType::kF32, values).ok());
    for (int i = 0; i < members; ++i) {
      for (int64_t k = slices[i].begin; k < slices[i].end; ++k) REQUIRE(values[i][k] == (1 << members) - 1);
    }

    const CollectiveSchedule gather = RingAllGather(members, elements, shape);
    RequireValid(gather);
    values = OneBitEach(members, elements);
    REQUIRE(RunSerially(gather, WireType::kF32, values).ok());
    for (int i = 0; i < members; ++i) {
      for (int64_t k = slices[i].begin; k < slices[i].end; ++k) {
        for (const std::vector<float>& all : values) REQUIRE(all[k] == 1 << i);
      }
    }
  }
}

TEST_CASE("a ring sums a slice from its owner's successor on, all of it or scattered and gathered",
          "[property]") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Random random(seed);
    const int members = 1 + RandomBelow(random, 16);
    const int64_t elements = RandomBelow(random, 3000);
    const GroupShape shape = RandomShape(random, members);
    const std::vector<int> order = OrderOf(shape, members);
    Vectors values;
    for (int i = 0; i < members; ++i) values.push_back(RandomFloats(random, elements));
    for (const bool whole : {true, false}) {
      CAPTURE(seed, members, elements, whole);
      const std::vector<ElementRange> slices =
          (whole ? SlicesOf : OwnedSlices)(elements, members, shape.shares);
      std::vector<float> want(elements);
      for (int place = 0; place < members; ++place) {
        for (int64_t k = slices[order[place]].begin; k < slices[order[place]].end; ++k) {
          want[k] = values[order[(place + 1) % members]][k];
          for (int i = 2; i <= members; ++i) want[k] += values[order[(place + i) % members]][k];
        }
      }
      Vectors sums = values;
      if (whole) {
        REQUIRE(RunSerially(RingAllReduceSchedule(members, elements, shape), WireType::kF32, sums).ok());
      } else {
        REQUIRE(RunSerially(RingReduceScatter(members, elements, shape), WireType::kF32, sums).ok());
        REQUIRE(RunSerially(RingAllGather(members, elements, shape), WireType::kF32, sums).ok());
      }
      for (const std::vector<float>& sum : sums) REQUIRE(SameBits(sum, want));
    }
  }
}

// Whether `own` is what `member` does in `whole`, and nothing else.
bool IsPartOf(const CollectiveSchedule& own, const CollectiveSchedule& whole, int member) {
  std::vector<std::vector<CollectiveStep>> want(whole.members);
  want[member] = whole.steps[member];
  return own.members == whole.members && own.elements == whole.elements && own.only == member &&
         own.steps == want;
}

TEST_CASE("halving and then doubling leave each member its slice, and all the sum", "[property]") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Random random(seed);
    const int members = 1 + RandomBelow(random, 20);
    const int64_t elements = RandomBelow(random, 300);
    std::vector<double> shares;
    for (int i = 0; i < members && seed % 3 > 0; ++i) shares.push_back(RandomBelow(random, 5));
    CAPTURE(seed, members, elements);
    const std::vector<ElementRange> slices = OwnedSlices(elements, members, shares);
    const CollectiveSchedule scatter = HalvingReduceScatter(members, elements, shares),
                             gather = DoublingAllGather(members, elements, shares);
    RequireValid(scatter);
    RequireValid(gather);
    Vectors values = OneBitEach(members, elements);
    REQUIRE(RunSerially(scatter, WireType::kF32, values).ok());
    for (int i = 0; i < members; ++i) {
      for (int64_t k = slices[i].begin; k < slices[i].end; ++k) REQUIRE(values[i][k] == (1 << members) - 1);
      REQUIRE(IsPartOf(HalvingReduceScatter(members, elements, shares, i), scatter, i));
      REQUIRE(IsPartOf(DoublingAllGather(members, elements, shares, i), gather, i));
    }
    values = OneBitEach(members, elements);
    REQUIRE(RunSerially(gather, WireType::kF32, values).ok());
    for (int i = 0; i < members; ++i) {
      for (int64_t k = slices[i].begin; k < slices[i].end; ++k) {
        for (const std::vector<float>& all : values) REQUIRE(all[k] == 1 << i);
      }
    }
  }
}

TEST_CASE("the halves of a power of two are those of their whole sum, to the bit", "[property]") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    const int members = 1 << RandomBelow(random, 6);
    const int64_t elements = RandomBelow(random, 3000);
    GroupShape shape;
    for (int i = 0; i < members && seed % 3 > 0; ++i) shape.shares.push_back(1 + RandomBelow(random, 4));
    CAPTURE(seed, members, elements);
    Vectors values;
    for (int i = 0; i < members; ++i) values.push_back(RandomFloats(random, elements));
    Vectors want = values;
    REQUIRE(RunSerially(HalvingDoublingSchedule(members, elements, shape), WireType::kF32, want).ok());
    REQUIRE(RunSerially(HalvingReduceScatter(members, elements, shape.shares), WireType::kF32, values).ok());
    REQUIRE(RunSerially(DoublingAllGather(members, elements, shape.shares), WireType::kF32, values).ok());
    for (int i = 0; i < members; ++i) REQUIRE(SameBits(values[i], want[i]));
  }
}

TEST_CASE(
    "neighbours exchange half of what is halved, and the next pair a quarter; who is one too many gives all "
    "first") {
  const auto sent_by = [](const CollectiveSchedule& schedule, int member) {
    std::vector<std::pair<int, int64_t>> sent;
    for (const CollectiveStep& step : schedule.steps[member]) {
      if (step.Sends()) sent.push_back({step.peer, step.range.size()});
    }
    return sent;
  };
  using Sent = std::vector<std::pair<int, int64_t>>;
  CHECK(sent_by(HalvingReduceScatter(8, 800, {}), 0) == Sent{{1, 400}, {2, 200}, {4, 100}});
  const CollectiveSchedule five = HalvingReduceScatter(5, 500, {});
  CHECK(sent_by(five, 1) == Sent{{0, 500}});
  CHECK(sent_by(five, 0) == Sent{{2, 200}, {3, 100}, {1, 100}});
  CHECK(MembersBySlice(5) == std::vector<int>{0, 1, 3, 2, 4});
  CHECK(OwnedSlices(80, 4, {1, 2, 3, 4}) == std::vector<ElementRange>{{0, 8}, {32, 48}, {8, 32}, {48, 80}});
}

TEST_CASE("groups exchange 2 (g - 1) / g vectors with the others, whatever their members", "[property]") {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Random random(seed);
    const int groups = 2 + RandomBelow(random, 3);
    std::vector<int> sizes(groups), group_of;
    for (int g = 0; g < groups; ++g) {
      sizes[g] = 1 + RandomBelow(random, 5);
      group_of.insert(group_of.end(), sizes[g], g);
    }
    const int members = static_cast<int>(group_of.size());
    const int64_t elements = 60 * 1000 * groups;
    CAPTURE(seed, groups, members);
    const auto schedule =
        AllReduceSchedule(members, elements, {CollectiveAlgorithm::kHierarchical, {{}, {sizes}, {}}, 0});
    REQUIRE(schedule.ok());
    std::vector<int64_t> out(groups), in(groups);
    for (int i = 0; i < members; ++i) {
      for (const CollectiveStep& step : schedule->steps[i]) {
        if (group_of[i] == group_of[step.peer]) continue;
        (step.Sends() ? out : in)[group_of[i]] += step.range.size();
      }
    }
    // The parts of groups count by their members: what a group does not sum itself it sends, and sends the
    // rest on.
    for (int g = 0; g < groups; ++g) {
      if (groups == 2) {
        CHECK(out[g] == elements);
        CHECK(in[g] == elements);
      }
      CHECK(out[g] <= 2 * elements);
    }
    int64_t total = 0;
    for (const int64_t sent : out) total += sent;
    CHECK(total == 2 * (groups - 1) * elements);
  }
}

// A valid schedule of two that exchange halves.
CollectiveSchedule TwoExchange() { return RingAllReduceSchedule(2, 8, {}); }

TEST_CASE("schedules that cannot be run are convicted") {
  using Kind = CollectiveStep::Kind;
  struct Case {
    const char* name;
    void (*change)(CollectiveSchedule&);
    const char* words;
  };
  static const Case cases[] = {
      {"no such peer", [](CollectiveSchedule& s) { s.steps[0][0].peer = 2; }, "no such peer"},
      {"itself", [](CollectiveSchedule& s) { s.steps[0][0].peer = 0; }, "no such peer"},
      {"beyond the vector", [](CollectiveSchedule& s) { s.steps[0][0].range.end = 9; }, "not inside the 8"},
      {"empty",
       [](CollectiveSchedule& s) {
         s.steps[0][0].range = {3, 3};
       },
       "empty"},
      {"rounds fall", [](CollectiveSchedule& s) { s.steps[0][0].round = 5; }, "must not fall"},
      {"nobody receives",
       [](CollectiveSchedule& s) {
         std::erase_if(s.steps[1], [](auto& step) { return step.kind == Kind::kReceive; });
       },
       "nobody receives this"},
      {"nobody sends",
       [](CollectiveSchedule& s) {
         s.steps[1].push_back({Kind::kReceive, 0, {0, 1}, 9});
       },
       "nobody sends this"},
      {"other ranges", [](CollectiveSchedule& s) { s.steps[0][0].range.end -= 1; }, "but member 0 step 0"},
      {"other kind", [](CollectiveSchedule& s) { s.steps[0][0].kind = Kind::kSendFinal; },
       "to be taken otherwise"},
      {"touched in the same round",
       [](CollectiveSchedule& s) {
         s.steps[0] = {{Kind::kSend, 1, {0, 8}, 0}, {Kind::kReceiveAndAdd, 1, {0, 8}, 0}};
         s.steps[1] = {{Kind::kSend, 0, {0, 8}, 0}, {Kind::kReceiveAndAdd, 0, {0, 8}, 0}};
       },
       "touches the same elements in the same round"},
      {"waits for what it makes possible",
       [](CollectiveSchedule& s) {
         for (int i = 0; i < 2; ++i) {
           s.steps[i] = {{Kind::kReceive, 1 - i, {0, 8}, 1}, {Kind::kSendFinal, 1 - i, {0, 8}, 1}};
         }
       },
       "in the same round"},
      {"members", [](CollectiveSchedule& s) { s.members = 3; }, "members is 3"},
  };
  RequireValid(TwoExchange());
  for (const Case& c : cases) {
    CAPTURE(c.name);
    CollectiveSchedule schedule = TwoExchange();
    c.change(schedule);
    const absl::Status status = CheckSchedule(schedule);
    CHECK(absl::IsInvalidArgument(status));
    CHECK_THAT(std::string(status.message()), Catch::Contains(c.words));
  }
}

TEST_CASE("the oracle says who waits for ever") {
  using Kind = CollectiveStep::Kind;
  CollectiveSchedule schedule{2, 4, {}};
  for (int i = 0; i < 2; ++i) {
    schedule.steps.push_back({{Kind::kReceive, 1 - i, {0, 4}, 0}, {Kind::kSendFinal, 1 - i, {0, 4}, 0}});
  }
  Vectors values(2, std::vector<float>(4));
  const absl::Status stuck = RunSerially(schedule, WireType::kF32, values);
  CHECK(absl::IsInvalidArgument(stuck));
  CHECK_THAT(std::string(stuck.message()), Catch::Contains("member 0 waits for ever in step 0"));
}

TEST_CASE("a valid schedule that loses one step is convicted", "[property]") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Random random(seed);
    const int members = 2 + RandomBelow(random, 8);
    CollectiveSchedule schedule = *AllReduceSchedule(members, 100, RandomChoice(random, members));
    std::vector<CollectiveStep>& steps = schedule.steps[RandomBelow(random, members)];
    if (steps.empty()) continue;
    steps.erase(steps.begin() + RandomBelow(random, static_cast<int>(steps.size())));
    CAPTURE(seed, members);
    CHECK_FALSE(CheckSchedule(schedule).ok());
  }
}

TEST_CASE("a member makes the same steps for itself as are its in the schedule of all", "[property]") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const int members = 1 + RandomBelow(random, 16);
    const int64_t elements = RandomElements(random);
    const CollectiveChoice choice = RandomChoice(random, members);
    const GroupShape shape = RandomShape(random, members);
    CAPTURE(seed, members, elements, NameOf(choice.algorithm));
    const CollectiveSchedule sum = *AllReduceSchedule(members, elements, choice),
                             scatter = RingReduceScatter(members, elements, shape),
                             gather = RingAllGather(members, elements, shape);
    for (int i = 0; i < members; ++i) {
      CAPTURE(i);
      REQUIRE(IsPartOf(*AllReduceSchedule(members, elements, choice, i), sum, i));
      REQUIRE(IsPartOf(RingReduceScatter(members, elements, shape, i), scatter, i));
      REQUIRE(IsPartOf(RingAllGather(members, elements, shape, i), gather, i));
    }
  }
  CHECK(absl::IsInvalidArgument(AllReduceSchedule(3, 10, {}, 3).status()));
  CHECK(absl::IsInvalidArgument(AllReduceSchedule(3, 10, {}, -1).status()));
}

TEST_CASE("shapes that do not fit are refused by field") {
  struct Case {
    GroupShape shape;
    const char* words;
  };
  const Case cases[] = {
      {{{0, 1}, {}, {}}, "order has 2 places"},
      {{{0, 1, 3}, {}, {}}, "order[2] is 3, not in [0, 3)"},
      {{{0, 1, 1}, {}, {}}, "order[2] is 1, which is there before"},
      {{{}, {{2, 2}}, {}}, "levels[0] cuts 4; must cut the 3"},
      {{{}, {{2, 1}, {1}}, {}}, "levels[1] cuts 1; must cut the 2"},
      {{{}, {{3, 0}}, {}}, "levels[0][1] is 0"},
      {{{}, {}, {1}}, "shares has 1 weights"},
      {{{}, {}, {1, 1, -1}}, "shares[2] is -1"},
      {{{}, {}, {1, 1, 1e10}}, "shares[2] is 1e+10"},
  };
  for (const Case& c : cases) {
    const auto schedule = AllReduceSchedule(3, 10, {CollectiveAlgorithm::kRing, c.shape, 0});
    CHECK(absl::IsInvalidArgument(schedule.status()));
    CHECK_THAT(std::string(schedule.status().message()), Catch::Contains(c.words));
  }
  CHECK(absl::IsInvalidArgument(AllReduceSchedule(0, 10, {}).status()));
  CHECK(absl::IsInvalidArgument(AllReduceSchedule(2, -1, {}).status()));
}

TEST_CASE("slices cover the vector in proportion to the shares", "[property]") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const int members = 1 + RandomBelow(random, 16);
    const int64_t elements = RandomElements(random);
    std::vector<double> shares;
    double total = 0;
    for (int i = 0; i < members; ++i) shares.push_back(RandomBelow(random, 5)), total += shares.back();
    const std::vector<ElementRange> slices = SlicesOf(elements, members, shares);
    int64_t end = 0;
    for (int i = 0; i < members; ++i) {
      CAPTURE(seed, i);
      CHECK(slices[i].begin == end);
      end = slices[i].end;
      if (total > 0) CHECK(std::abs(slices[i].size() - elements * shares[i] / total) <= 1);
    }
    CHECK(end == elements);
  }
}

}  // namespace
}  // namespace medley
