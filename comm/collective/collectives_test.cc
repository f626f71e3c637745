#include <catch2/catch.hpp>
#include <thread>

#include "comm/collective/all_reduce.h"
#include "comm/collective/collective_check.h"
#include "runtime/ir/collective/all_reduce_schedule.h"
#include "runtime/ir/collective/ring_schedule.h"

namespace medley {
namespace {

constexpr WireType kWires[] = {WireType::kF32, WireType::kBf16};
constexpr CollectiveAlgorithm kAlgorithms[] = {
    CollectiveAlgorithm::kRing, CollectiveAlgorithm::kHalvingDoubling, CollectiveAlgorithm::kTree,
    CollectiveAlgorithm::kHierarchical};

TransportUnderTest AnyTransport() {
  const int kind = GENERATE(range(0, TransportUnderTest::kKinds));
  return AllTransports()[kind];
}

TEST_CASE("every algorithm gives the serial sum to the bit, whatever the ranks and sizes", "[property]") {
  const TransportUnderTest kind = AnyTransport();
  for (const int ranks : {1, 2, 5, 8}) {
    const auto cluster = OpenCluster(kind, ranks);
    Random random(ranks);
    for (const CollectiveAlgorithm algorithm : kAlgorithms) {
      for (const int elements : {RandomBelow(random, 9), 1023, 150003}) {
        CollectiveChoice choice{algorithm, RandomShape(random, ranks), 0};
        const WireType wire = kWires[RandomBelow(random, 2)];
        CAPTURE(kind.name, ranks, NameOf(algorithm), elements, static_cast<int>(wire));
        CheckCollective(*cluster, random, *AllReduceSchedule(ranks, elements, choice), wire);
      }
    }
  }
}

TEST_CASE("sixteen ranks", "[property]") {
  const TransportUnderTest kind = AllTransports()[GENERATE(2, 3)];
  CAPTURE(kind.name);
  const auto cluster = OpenCluster(kind, 16);
  Random random(16);
  for (int i = 0; i < 12; ++i) {
    const int64_t elements = RandomBelow(random, 100'000);
    CollectiveChoice choice{kAlgorithms[i % 4], RandomShape(random, 16), 0};
    CAPTURE(i, elements, NameOf(choice.algorithm));
    CheckCollective(*cluster, random, *AllReduceSchedule(16, elements, choice), kWires[i / 4 % 2]);
  }
}

TEST_CASE("reduce-scatter and all-gather give the serial result to the bit", "[property]") {
  const TransportUnderTest kind = AnyTransport();
  for (const int ranks : {2, 5}) {
    const auto cluster = OpenCluster(kind, ranks);
    Random random(ranks);
    for (const int64_t elements : {0, 3, 1000, 400'000}) {
      for (const WireType wire : kWires) {
        CAPTURE(kind.name, ranks, elements, static_cast<int>(wire));
        const GroupShape shape = RandomShape(random, ranks);
        CheckCollective(*cluster, random, RingReduceScatter(ranks, elements, shape), wire);
        CheckCollective(*cluster, random, RingAllGather(ranks, elements, shape), wire);
      }
    }
  }
}

TEST_CASE("64 MiB", "[property]") {
  const int kind = GENERATE(range(0, 3));
  const TransportUnderTest transport = AllTransports()[kind];
  const int ranks = kind == 1 ? 4 : 2;
  CAPTURE(transport.name);
  const auto cluster = OpenCluster(transport, ranks);
  Random random(1);
  const int64_t elements = (int64_t{16} << 20) - 3;
  CheckCollective(*cluster, random, *AllReduceSchedule(ranks, elements, {}), kWires[kind % 2]);
  const CollectiveChoice nested{CollectiveAlgorithm::kHierarchical, {{}, {{ranks / 2, ranks / 2}}, {}}, 0};
  CheckCollective(*cluster, random, *AllReduceSchedule(ranks, elements, nested), kWires[(kind + 1) % 2]);
}

TEST_CASE("groups that overlap run one after another on one channel, and at once on channels of their own",
          "[property]") {
  const TransportUnderTest kind = AnyTransport();
  constexpr int kRanks = 6, kGroups = 5;
  const auto cluster = OpenCluster(kind, kRanks);
  for (uint64_t seed = 0; seed < 6; ++seed) {
    CAPTURE(seed, kind.name);
    Random random(seed);
    std::vector<CollectiveCase> groups;
    while (groups.size() < kGroups) {
      std::vector<int> members;
      for (int rank = 0; rank < kRanks; ++rank) {
        if (RandomBelow(random, 3) > 0) members.push_back(rank);
      }
      if (members.empty()) continue;
      const int n = static_cast<int>(members.size());
      groups.emplace_back(random, *AllReduceSchedule(n, RandomBelow(random, 60000), RandomChoice(random, n)),
                          members, kWires[RandomBelow(random, 2)]);
    }
    const bool at_once = seed % 2 == 1;
    const auto statuses = cluster->OnEveryRank([&](Transport& transport) {
      std::vector<absl::Status> results(kGroups);
      std::vector<std::thread> threads;
      for (int g = 0; g < kGroups; ++g) {
        const auto run = [&, g] { results[g] = groups[g].Run(transport, at_once ? g : 0); };
        if (at_once)
          threads.emplace_back(run);
        else
          run();
      }
      for (std::thread& thread : threads) thread.join();
      for (const absl::Status& status : results) {
        if (!status.ok()) return status;
      }
      return absl::OkStatus();
    });
    for (const absl::Status& status : statuses) {
      INFO(status.ToString());
      CHECK(status.ok());
    }
    for (const CollectiveCase& group : groups) CHECK(group.AsWanted());
  }
}

TEST_CASE("an all-reduce runs the schedule of its choice") {
  const auto cluster = OpenCluster(AllTransports()[0], 3);
  const std::vector<int> members = UpTo(3);
  std::vector<std::vector<float>> sums(3, {1, 2, 3, 4});
  const auto statuses = cluster->OnEveryRank([&](Transport& transport) {
    const CollectiveCall call{members, 1, WireType::kF32, Soon()};
    return AllReduce(transport, call, {CollectiveAlgorithm::kTree, {}, 0},
                     absl::MakeSpan(sums[transport.rank()]));
  });
  for (int rank = 0; rank < 3; ++rank) {
    INFO(statuses[rank].ToString());
    CHECK(statuses[rank].ok());
    CHECK(sums[rank] == std::vector<float>{3, 6, 9, 12});
  }
}

}  // namespace
}  // namespace medley
