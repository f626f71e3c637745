#include <catch2/catch.hpp>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "comm/group/join_group.h"
#include "comm/group/library_rank_group.h"
#include "comm/group/run_in_group.h"
#include "comm/loopback/loopback_fabric.h"
#include "kernels/cuda/cuda_queue.h"
#include "kernels/cuda/nccl_groups.h"
#include "kernels/cuda/simulated_driver.h"
#include "kernels/cuda/simulated_nccl.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"

// Groups of simulated GPUs whose ranks talk over a loopback: coming together or not, and what becomes of those
// that wait for a member that will not come.
namespace medley {
namespace {

constexpr int kRanks = 3;
constexpr int64_t kElements = 5;

struct Rank {
  Transport& transport;
  CudaQueue& queue;
  NcclGroups& groups;
  std::vector<int> members;
};

// Runs `body` of every rank on a thread of its own; who fails is gone for the others. What each returned.
std::vector<absl::Status> OnEveryRank(const std::function<absl::Status(Rank&)>& body) {
  LoopbackFabric fabric(kRanks);
  std::vector<absl::Status> statuses(kRanks);
  std::vector<std::thread> threads;
  const CudaDriver& driver = simulated::Start(1);
  const NcclLibrary& library = simulated::StartNccl();
  for (int i = 0; i < kRanks; ++i) {
    threads.emplace_back([&, i] {
      const std::unique_ptr<Transport> transport = fabric.Join(i);
      const auto run = [&]() -> absl::Status {
        ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> device, CudaDevice::Open(driver, i));
        ASSIGN_OR_RETURN(const std::unique_ptr<CudaQueue> queue,
                         CudaQueue::Create(std::move(device), MiB(64)));
        NcclGroups groups(*queue, library);
        Rank rank{*transport, *queue, groups, std::vector<int>(kRanks)};
        std::iota(rank.members.begin(), rank.members.end(), 0);
        return body(rank);
      };
      statuses[static_cast<size_t>(i)] = run();
      if (!statuses[static_cast<size_t>(i)].ok()) fabric.MarkGone(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

absl::Time Soon() { return Now() + absl::Seconds(60); }

absl::StatusOr<std::unique_ptr<DeviceGroup>> Join(Rank& rank) {
  ASSIGN_OR_RETURN(JoinedGroup joined, JoinGroup(rank.transport, rank.groups, rank.members, Soon()));
  if (joined.group == nullptr) return absl::AbortedError(joined.failure);
  return std::move(joined.group);
}

absl::Status Sum(Rank& rank, DeviceGroup& group, Buffer& buffer, absl::Time deadline) {
  return RunInGroup(group, rank.queue, rank.transport, rank.members, 0, {.values = {&buffer, 0, kElements}},
                    rank.queue.Record(), nullptr, deadline);
}

TEST_CASE("members come together and sum") {
  const auto statuses = OnEveryRank([](Rank& rank) -> absl::Status {
    ASSIGN_OR_RETURN(const auto group, Join(rank));
    ASSIGN_OR_RETURN(const auto buffer, rank.queue.Allocate({kElements * 4}));
    std::vector<float> values(kElements, static_cast<float>(rank.transport.rank() + 1));
    const absl::Span<std::byte> bytes(reinterpret_cast<std::byte*>(values.data()), kElements * 4);
    RETURN_IF_ERROR(rank.queue.Upload(bytes, *buffer, {0}));
    for (int i = 0; i < 3; ++i) RETURN_IF_ERROR(Sum(rank, *group, *buffer, Soon()));
    RETURN_IF_ERROR(rank.queue.Download(*buffer, {0}, bytes));
    RETURN_IF_ERROR(rank.queue.Wait(rank.queue.Record()));
    // All have 6 after the first, which each of the others triples.
    if (values != std::vector<float>(kElements, 54)) return absl::InternalError("another sum");
    return absl::OkStatus();
  });
  for (const absl::Status& status : statuses) CHECK(status == absl::OkStatus());
  CHECK(simulated::LiveCommunicators() == 0);
}

TEST_CASE("where one cannot join none does, and all say why") {
  const auto statuses = OnEveryRank([](Rank& rank) {
    simulated::FailJoining(1);
    return Join(rank).status();
  });
  for (const absl::Status& status : statuses) {
    CHECK(status.message() ==
          "rank 1 cannot join: joining a group of GPUs: unhandled system error: it was asked to fail");
  }
  CHECK(simulated::LiveCommunicators() == 0);
}

TEST_CASE("a member that is gone before it joins does not keep the others") {
  const auto statuses = OnEveryRank([](Rank& rank) -> absl::Status {
    if (rank.transport.rank() == 1) return absl::InternalError("it crashes");
    return Join(rank).status();
  });
  CHECK(absl::IsUnavailable(statuses[0]));
  CHECK_THAT(std::string(statuses[2].message()), Catch::Contains("with rank"));
  CHECK(simulated::LiveCommunicators() == 0);
}

TEST_CASE("a member that is gone before a sum ends it for the others") {
  const auto statuses = OnEveryRank([](Rank& rank) -> absl::Status {
    ASSIGN_OR_RETURN(const auto group, Join(rank));
    if (rank.transport.rank() == 2) return absl::InternalError("it crashes");
    ASSIGN_OR_RETURN(const auto buffer, rank.queue.Allocate({kElements * 4}));
    return Sum(rank, *group, *buffer, Soon());
  });
  for (int rank = 0; rank < 2; ++rank) {
    const absl::Status& status = statuses[static_cast<size_t>(rank)];
    CAPTURE(status);
    CHECK(absl::IsUnavailable(status));
    CHECK_THAT(std::string(status.message()),
               Catch::StartsWith("sum of ranks 0, 1, 2 in their devices' memory: collective with rank "));
  }
  CHECK(simulated::LiveCommunicators() == 0);
}

TEST_CASE("a rank that fails elsewhere leaves its sum") {
  const auto statuses = OnEveryRank([](Rank& rank) -> absl::Status {
    ASSIGN_OR_RETURN(const auto group, Join(rank));
    ASSIGN_OR_RETURN(const auto buffer, rank.queue.Allocate({kElements * 4}));
    simulated::HangSums(0);
    if (rank.transport.rank() == 1) rank.transport.Abort("a send failed");
    return Sum(rank, *group, *buffer, Soon());
  });
  CHECK(absl::IsCancelled(statuses[1]));
  for (const absl::Status& status : statuses) CHECK_FALSE(status.ok());
}

TEST_CASE("a sum that hangs ends at its deadline") {
  const auto statuses = OnEveryRank([](Rank& rank) -> absl::Status {
    ASSIGN_OR_RETURN(const auto group, Join(rank));
    ASSIGN_OR_RETURN(const auto buffer, rank.queue.Allocate({kElements * 4}));
    simulated::HangSums(0);
    return Sum(rank, *group, *buffer, Now() + absl::Milliseconds(30));
  });
  for (const absl::Status& status : statuses) {
    CHECK(status.message() ==
          "sum of ranks 0, 1, 2 in their devices' memory: the devices have not finished it in time");
  }
}

std::unique_ptr<LibraryRankGroup> Unit(Rank& rank, std::unique_ptr<DeviceGroup> group,
                                       absl::Duration patience) {
  return std::make_unique<LibraryRankGroup>(std::move(group), rank.queue, rank.transport, rank.members, 0,
                                            [patience] { return Now() + patience; });
}

TEST_CASE("ranks of a unit exchange behind one another, and wait for all at the end") {
  const auto statuses = OnEveryRank([](Rank& rank) -> absl::Status {
    ASSIGN_OR_RETURN(auto joined, Join(rank));
    ASSIGN_OR_RETURN(const auto buffer, rank.queue.Allocate({kElements * 4}));
    const auto unit = Unit(rank, std::move(joined), absl::Seconds(60));
    if (unit->members() != kRanks || unit->member() != rank.transport.rank())
      return absl::InternalError("another place");
    std::vector<float> values(kElements, static_cast<float>(rank.transport.rank() + 1));
    const absl::Span<std::byte> bytes(reinterpret_cast<std::byte*>(values.data()), kElements * 4);
    RETURN_IF_ERROR(rank.queue.Upload(bytes, *buffer, {0}));
    const Slice x{buffer.get(), 0, kElements};
    const std::vector<int64_t> ends = {2, 4, 5};
    for (int i = 0; i < 3; ++i) {
      RETURN_IF_ERROR(unit->Scatter(x, ends));
      RETURN_IF_ERROR(unit->Gather(x, ends));
      RETURN_IF_ERROR(unit->Sum(x));
    }
    RETURN_IF_ERROR(rank.queue.Download(*buffer, {0}, bytes));
    RETURN_IF_ERROR(rank.queue.Wait(rank.queue.Record()));
    RETURN_IF_ERROR(unit->Error());
    // All have 6 after the first scatter, and whatever follows triples it.
    if (values != std::vector<float>(kElements, 6 * 3 * 9 * 9)) return absl::InternalError("another sum");
    return absl::OkStatus();
  });
  for (const absl::Status& status : statuses) CHECK(status == absl::OkStatus());
  CHECK(simulated::LiveCommunicators() == 0);
}

// Submits an exchange and waits for the device, which the exchange keeps: what it says then, and says again.
absl::Status ErrorOf(Rank& rank, RankGroup& unit, Buffer& buffer) {
  RETURN_IF_ERROR(unit.Sum({&buffer, 0, kElements}));
  RETURN_IF_ERROR(rank.queue.Wait(rank.queue.Record()));
  const absl::Status error = unit.Error();
  if (unit.Sum({&buffer, 0, kElements}) != error || unit.Error() != error)
    return absl::InternalError("its error does not stay");
  return error;
}

TEST_CASE("a member of a unit that is gone does not keep the devices of the others") {
  const auto statuses = OnEveryRank([](Rank& rank) -> absl::Status {
    ASSIGN_OR_RETURN(auto joined, Join(rank));
    if (rank.transport.rank() == 2) return absl::InternalError("it crashes");
    ASSIGN_OR_RETURN(const auto buffer, rank.queue.Allocate({kElements * 4}));
    return ErrorOf(rank, *Unit(rank, std::move(joined), absl::Seconds(60)), *buffer);
  });
  for (int rank = 0; rank < 2; ++rank) {
    const absl::Status& status = statuses[static_cast<size_t>(rank)];
    CAPTURE(status);
    CHECK(absl::IsUnavailable(status));
    CHECK_THAT(
        std::string(status.message()),
        Catch::StartsWith("exchange of ranks 0, 1, 2 in their devices' memory: collective with rank "));
  }
  CHECK(simulated::LiveCommunicators() == 0);
}

TEST_CASE("a rank that fails elsewhere leaves its unit's exchange") {
  const auto statuses = OnEveryRank([](Rank& rank) -> absl::Status {
    ASSIGN_OR_RETURN(auto joined, Join(rank));
    ASSIGN_OR_RETURN(const auto buffer, rank.queue.Allocate({kElements * 4}));
    simulated::HangSums(0);
    if (rank.transport.rank() == 1) rank.transport.Abort("a send failed");
    return ErrorOf(rank, *Unit(rank, std::move(joined), absl::Seconds(60)), *buffer);
  });
  CHECK(absl::IsCancelled(statuses[1]));
  for (const absl::Status& status : statuses) CHECK_FALSE(status.ok());
}

TEST_CASE("an exchange of a unit that hangs ends at its deadline") {
  const auto statuses = OnEveryRank([](Rank& rank) -> absl::Status {
    ASSIGN_OR_RETURN(auto joined, Join(rank));
    ASSIGN_OR_RETURN(const auto buffer, rank.queue.Allocate({kElements * 4}));
    simulated::HangSums(0);
    return ErrorOf(rank, *Unit(rank, std::move(joined), absl::Milliseconds(30)), *buffer);
  });
  for (const absl::Status& status : statuses) {
    CHECK(status.message() ==
          "exchange of ranks 0, 1, 2 in their devices' memory: the devices have not finished it in time");
  }
}

TEST_CASE("an exchange of a unit that fails has the library's words") {
  const auto statuses = OnEveryRank([](Rank& rank) -> absl::Status {
    ASSIGN_OR_RETURN(auto joined, Join(rank));
    ASSIGN_OR_RETURN(const auto buffer, rank.queue.Allocate({kElements * 4}));
    simulated::FailSums(1);
    return ErrorOf(rank, *Unit(rank, std::move(joined), absl::Seconds(60)), *buffer);
  });
  CHECK(statuses[1].message() ==
        "exchange of ranks 0, 1, 2 in their devices' memory: exchanging in a group of GPUs: remote process "
        "exited: it "
        "was asked to fail");
  for (const absl::Status& status : statuses) CHECK_FALSE(status.ok());
}

TEST_CASE("a unit that goes while it exchanges waits for nobody") {
  const auto statuses = OnEveryRank([](Rank& rank) -> absl::Status {
    ASSIGN_OR_RETURN(auto joined, Join(rank));
    ASSIGN_OR_RETURN(const auto buffer, rank.queue.Allocate({kElements * 4}));
    simulated::HangSums(0);
    return Unit(rank, std::move(joined), absl::InfiniteDuration())->Sum({buffer.get(), 0, kElements});
  });
  for (const absl::Status& status : statuses) CHECK(status == absl::OkStatus());
  CHECK(simulated::LiveCommunicators() == 0);
}

}  // namespace
}  // namespace medley
