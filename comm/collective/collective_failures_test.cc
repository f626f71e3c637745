#include <catch2/catch.hpp>
#include <string>

#include "comm/collective/all_reduce.h"
#include "comm/collective/all_reduce_scalars.h"
#include "comm/collective/collective_check.h"
#include "comm/collective/run_collective.h"
#include "comm/loopback/loopback_fabric.h"
#include "runtime/base/clock.h"
#include "runtime/ir/collective/all_reduce_schedule.h"
#include "runtime/ir/collective/chunk_size.h"

namespace medley {
namespace {

constexpr CollectiveAlgorithm kAlgorithms[] = {
    CollectiveAlgorithm::kRing, CollectiveAlgorithm::kHalvingDoubling, CollectiveAlgorithm::kTree,
    CollectiveAlgorithm::kHierarchical};

TEST_CASE("members that cannot be are refused by place") {
  LoopbackFabric fabric(3);
  const auto transport = fabric.Join(1);
  struct Case {
    std::vector<int> members;
    std::string words;
  };
  const Case cases[] = {
      {{}, "lack this rank, 1"},
      {{0, 2}, "lack this rank, 1"},
      {{1, 3}, "members[1] is 3, not in [0, 3)"},
      {{-1, 1}, "members[0] is -1, not in [0, 3)"},
      {{1, 1}, "members[1] is 1, not above members[0], 1"},
      {{2, 1}, "members[1] is 1, not above members[0], 2"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.words);
    std::vector<float> numbers(4, 1.0f);
    std::vector<double> scalars(1, 1.0);
    const int members = static_cast<int>(c.members.size());
    const absl::Status ring =
        RunCollective(*transport, {members, 4, std::vector<std::vector<CollectiveStep>>(members)}, c.members,
                      0, absl::MakeSpan(numbers), WireType::kF32, Soon());
    CHECK(absl::IsInvalidArgument(ring));
    CHECK_THAT(std::string(ring.message()), Catch::Contains(c.words));
    CHECK(AllReduceScalars(*transport, c.members, absl::MakeSpan(scalars), Soon()) == ring);
    CHECK(numbers == std::vector<float>(4, 1.0f));
  }
}

TEST_CASE("schedules and shapes that do not fit are refused") {
  LoopbackFabric fabric(3);
  const auto transport = fabric.Join(1);
  const std::vector<int> members = {0, 1, 2};
  std::vector<float> numbers(4, 1.0f);
  const auto refused = [&](const absl::Status& status, const std::string& words) {
    CHECK(absl::IsInvalidArgument(status));
    CHECK_THAT(std::string(status.message()), Catch::Contains(words));
  };
  refused(RunCollective(*transport, *AllReduceSchedule(3, 5, {}), members, 0, absl::MakeSpan(numbers),
                        WireType::kF32, Soon()),
          "for 3 members and 5 values, not 3 and 4");
  refused(RunCollective(*transport, *AllReduceSchedule(3, 4, {}, /*only=*/2), members, 0,
                        absl::MakeSpan(numbers), WireType::kF32, Soon()),
          "the steps of member 2 alone, not of 1");
  const CollectiveCall call{members, 0, WireType::kF32, Soon()};
  const GroupShape shape{{0, 1}, {}, {}};
  refused(AllReduce(*transport, call, {CollectiveAlgorithm::kRing, shape, 0}, absl::MakeSpan(numbers)),
          "order has 2 places");
  CHECK(numbers == std::vector<float>(4, 1.0f));
}

TEST_CASE("at the deadline the peer, the step and the bytes are named") {
  LoopbackFabric fabric(3);
  const auto transport = fabric.Join(1);
  for (const CollectiveAlgorithm algorithm : kAlgorithms) {
    std::vector<float> values(6, 1.0f);
    const std::vector<int> members = {0, 1, 2};
    const CollectiveCall call{members, 0, WireType::kF32, Now() + absl::Milliseconds(20)};
    const absl::Status late = AllReduce(*transport, call, {algorithm, {}, 0}, absl::MakeSpan(values));
    CAPTURE(NameOf(algorithm), late.ToString());
    CHECK(absl::IsDeadlineExceeded(late));
    CHECK_THAT(std::string(late.message()), Catch::Contains("from rank 0, step "));
    CHECK_THAT(std::string(late.message()), Catch::Contains("0 of ") && Catch::Contains(" bytes done"));
  }
}

TEST_CASE("a message that came in part is counted in the report") {
  LoopbackFabric fabric(2);
  const auto other = fabric.Join(0), transport = fabric.Join(1);
  std::vector<float> values(200'000, 1.0f);
  // The first chunk of the slice that rank 0 has to send.
  const std::vector<float> chunk(100'000 / ChunksOf(100'000), 1.0f);
  const MessageTag tag{MessageTag::Kind::kReduce, 0, 0};
  const auto sent = other->Send(1, tag, {reinterpret_cast<const std::byte*>(chunk.data()), chunk.size() * 4});
  REQUIRE(sent.ok());
  const absl::Status late =
      AllReduce(*transport, {.members = {0, 1}, .deadline = Now() + absl::Milliseconds(20)}, {},
                absl::MakeSpan(values));
  INFO(late.ToString());
  CHECK(absl::IsDeadlineExceeded(late));
  CHECK_THAT(std::string(late.message()),
             Catch::Contains(std::to_string(chunk.size() * 4) + " of 400000 bytes done"));
}

TEST_CASE("a member that is gone fails all others by its name, also those that exchange nothing with it") {
  const int kind = GENERATE(range(0, TransportUnderTest::kKinds));
  const TransportUnderTest transport = AllTransports()[kind];
  constexpr int kRanks = 6, kGone = 4;
  for (const CollectiveAlgorithm algorithm : kAlgorithms) {
    CAPTURE(transport.name, NameOf(algorithm));
    const auto cluster = OpenCluster(transport, kRanks);
    CollectiveChoice choice{algorithm, {}, 0};
    if (algorithm == CollectiveAlgorithm::kHierarchical) choice.shape.levels = {{2, 4}};
    const std::vector<int> members = UpTo(kRanks);
    const absl::Time begin = Now();
    const auto statuses = cluster->OnEveryRank([&](Transport& rank) {
      if (rank.rank() == kGone) return absl::OkStatus();
      rank.MarkGone(kGone, "cut off");
      std::vector<float> values(1000, 1.0f);
      const CollectiveCall call{members, 3, WireType::kF32, Soon()};
      return AllReduce(rank, call, choice, absl::MakeSpan(values));
    });
    CHECK(Now() - begin < absl::Seconds(15));
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == kGone) continue;
      INFO(rank << ": " << statuses[rank].ToString());
      CHECK(absl::IsUnavailable(statuses[rank]));
      CHECK_THAT(std::string(statuses[rank].message()), Catch::Contains("rank 4"));
    }
  }
}

TEST_CASE("aborting ends a collective with the reason") {
  LoopbackFabric fabric(2);
  const auto transport = fabric.Join(1);
  transport->Abort("told to stop");
  std::vector<float> values(10, 1.0f);
  const absl::Status status =
      AllReduce(*transport, {.members = {0, 1}, .deadline = Soon()}, {}, absl::MakeSpan(values));
  CHECK(absl::IsCancelled(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains("told to stop"));
}

}  // namespace
}  // namespace medley
