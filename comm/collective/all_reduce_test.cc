#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "comm/collective/all_reduce_scalars.h"
#include "comm/collective/ring_all_reduce.h"
#include "comm/conformance/test_cluster.h"
#include "comm/loopback/loopback_fabric.h"

namespace medley {
namespace {

absl::Time Soon() { return absl::Now() + absl::Seconds(20); }

// Numbers whose float sums depend on the order.
std::vector<float> RandomValues(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random) * static_cast<float>(1 << (random() % 12));
  return values;
}

// The contract, in words of one thread: segment j is summed from member j on, around.
std::vector<float> SerialSum(const std::vector<std::vector<float>>& inputs) {
  const size_t n = inputs.size(), count = inputs[0].size();
  std::vector<float> sum(count);
  for (size_t j = 0; j < n; ++j) {
    for (size_t i = count * j / n; i < count * (j + 1) / n; ++i) {
      sum[i] = inputs[j][i];
      for (size_t k = 1; k < n; ++k) sum[i] += inputs[(j + k) % n][i];
    }
  }
  return sum;
}

template <typename T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

std::unique_ptr<TestCluster> Open(const TransportUnderTest& kind, int size) {
  auto cluster = kind.open(size);
  INFO(cluster.status().ToString());
  REQUIRE(cluster.ok());
  return *std::move(cluster);
}

std::vector<int> UpTo(int n) {
  std::vector<int> members(n);
  for (int i = 0; i < n; ++i) members[i] = i;
  return members;
}

void CheckRing(TestCluster& cluster, size_t count, uint64_t seed) {
  const std::vector<int> members = UpTo(cluster.size());
  std::vector<std::vector<float>> inputs;
  for (const int rank : members) inputs.push_back(RandomValues(count, seed + rank));
  const std::vector<float> want = SerialSum(inputs);
  std::vector<std::vector<float>> values = inputs;
  const auto statuses = cluster.OnEveryRank([&](Transport& transport) {
    return RingAllReduce(transport, members, 5, absl::MakeSpan(values[transport.rank()]), Soon());
  });
  for (const int rank : members) {
    INFO("rank " << rank << ": " << statuses[rank].ToString());
    CHECK(statuses[rank].ok());
    CHECK(SameBits(values[rank], want));
  }
}

TEST_CASE("RingAllReduce is the serial sum to the bit, whatever the ranks and sizes") {
  const int ranks = GENERATE(1, 2, 3, 4, 5, 6, 7, 8);
  const TransportUnderTest kind = GENERATE(from_range(AllTransports()));
  CAPTURE(kind.name, ranks);
  const auto cluster = Open(kind, ranks);
  for (const size_t count : {0, 1, 2, 7, 8, 1023, 65537, 300007}) {
    CAPTURE(count);
    CheckRing(*cluster, count, /*seed=*/count);
  }
}

TEST_CASE("RingAllReduce of more chunks than fit the scratch is the serial sum to the bit") {
  const TransportUnderTest kind = GENERATE(from_range(AllTransports()));
  CAPTURE(kind.name);
  const auto cluster = Open(kind, 3);
  CheckRing(*cluster, 3 * 65536 * 9 + 11, /*seed=*/1);
}

TEST_CASE("groups that overlap reduce one after another and at once on channels of their own", "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{6}));
  const TransportUnderTest kind = GENERATE(from_range(AllTransports()));
  CAPTURE(seed, kind.name);
  constexpr int kRanks = 5, kGroups = 4;
  const auto cluster = Open(kind, kRanks);
  std::mt19937_64 random(seed);
  struct Group {
    std::vector<int> members;
    std::vector<std::vector<float>> inputs, values;  // by place
  };
  std::vector<Group> groups(kGroups);
  for (Group& group : groups) {
    const size_t count = random() % 20000;
    for (int rank = 0; rank < kRanks; ++rank) {
      if (random() % 3 == 0) continue;
      group.members.push_back(rank);
      group.inputs.push_back(RandomValues(count, random()));
    }
    group.values = group.inputs;
  }
  // Even seeds: in one order on one channel. Odd: all at once.
  const bool at_once = seed % 2 == 1;
  const auto statuses = cluster->OnEveryRank([&](Transport& transport) {
    std::vector<absl::Status> results(kGroups);
    const auto reduce = [&](int g) {
      Group& group = groups[g];
      for (size_t place = 0; place < group.members.size(); ++place) {
        if (group.members[place] != transport.rank()) continue;
        results[g] = RingAllReduce(transport, group.members, at_once ? g : 0,
                                   absl::MakeSpan(group.values[place]), Soon());
      }
    };
    std::vector<std::thread> threads;
    for (int g = 0; g < kGroups; ++g) {
      if (at_once) threads.emplace_back(reduce, g); else reduce(g);
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
  for (const Group& group : groups) {
    if (group.members.empty()) continue;
    const std::vector<float> want = SerialSum(group.inputs);
    for (const std::vector<float>& values : group.values) CHECK(SameBits(values, want));
  }
}

TEST_CASE("AllReduceScalars adds in rank order, to the bit, for any subset of ranks") {
  const int ranks = GENERATE(1, 2, 3, 8);
  const TransportUnderTest kind = GENERATE(from_range(AllTransports()));
  CAPTURE(kind.name, ranks);
  const auto cluster = Open(kind, ranks);
  for (const size_t count : {0, 1, 5, 300}) {
    CAPTURE(count);
    std::vector<std::vector<double>> values(ranks);
    std::mt19937_64 random(count);
    for (auto& row : values) {
      for (size_t i = 0; i < count; ++i) row.push_back(std::normal_distribution<double>()(random) * 1e3);
    }
    std::vector<double> want(count, 0.0);
    for (const auto& row : values) {
      for (size_t i = 0; i < count; ++i) want[i] += row[i];
    }
    const auto statuses = cluster->OnEveryRank([&](Transport& transport) {
      return AllReduceScalars(transport, UpTo(ranks), absl::MakeSpan(values[transport.rank()]), Soon());
    });
    for (int rank = 0; rank < ranks; ++rank) {
      CHECK(statuses[rank].ok());
      CHECK(SameBits(values[rank], want));
    }
  }
}

TEST_CASE("members that cannot be are refused by place") {
  LoopbackFabric fabric(3);
  const auto transport = fabric.Join(1);
  std::vector<float> numbers(4, 1.0f);
  std::vector<double> scalars(1, 1.0);
  using Case = std::pair<std::vector<int>, std::string>;
  const auto c = GENERATE(values<Case>({
      {{}, "lack this rank, 1"},
      {{0, 2}, "lack this rank, 1"},
      {{1, 3}, "members[1] is 3, not in [0, 3)"},
      {{-1, 1}, "members[0] is -1, not in [0, 3)"},
      {{1, 1}, "members[1] is 1, not above members[0], 1"},
      {{2, 1}, "members[1] is 1, not above members[0], 2"},
  }));
  const absl::Status ring = RingAllReduce(*transport, c.first, 0, absl::MakeSpan(numbers), Soon());
  const absl::Status few = AllReduceScalars(*transport, c.first, absl::MakeSpan(scalars), Soon());
  CHECK(absl::IsInvalidArgument(ring));
  CHECK_THAT(std::string(ring.message()), Catch::Contains(c.second));
  CHECK(few == ring);
  CHECK(numbers == std::vector<float>(4, 1.0f));
}

TEST_CASE("a member that does not come is named at the deadline, one that is gone at once") {
  LoopbackFabric fabric(3);
  const auto transport = fabric.Join(1);
  std::vector<float> values(4, 1.0f);
  const absl::Status late = RingAllReduce(*transport, {0, 1, 2}, 0, absl::MakeSpan(values),
                                          absl::Now() + absl::Milliseconds(20));
  CHECK(absl::IsDeadlineExceeded(late));
  CHECK_THAT(std::string(late.message()), Catch::Contains("rank 0"));
  fabric.MarkGone(0);
  const absl::Status gone = RingAllReduce(*transport, {0, 1, 2}, 0, absl::MakeSpan(values), Soon());
  CHECK(absl::IsUnavailable(gone));
  CHECK_THAT(std::string(gone.message()), Catch::Contains("rank 0"));
}

}  // namespace
}  // namespace medley
