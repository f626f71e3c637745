#include "comm/group/staged_rank_group.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "absl/synchronization/notification.h"
#include "comm/loopback/loopback_fabric.h"
#include "kernels/host/host_queue.h"
#include "kernels/skeleton/skeleton_queue.h"
#include "runtime/base/clock.h"
#include "runtime/base/narrow.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr uint16_t kChannel = 7;

// Memory of odd members is out of the host's reach.
std::unique_ptr<DeviceQueue> Open(int member) {
  if (member % 2 == 0) return std::make_unique<HostQueue>("host", MiB(64));
  return std::make_unique<SkeletonQueue>(MiB(64));
}

std::vector<std::byte> Stored(const std::vector<float>& values, Dtype dtype) {
  std::vector<std::byte> bytes(values.size() * SizeOf(dtype).value);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t narrow = ToNarrow(values[i], dtype);
    if (dtype == Dtype::kF32) std::memcpy(&bytes[4 * i], &values[i], 4);
    if (dtype != Dtype::kF32) std::memcpy(&bytes[2 * i], &narrow, 2);
  }
  return bytes;
}

std::vector<float> Loaded(const std::vector<std::byte>& bytes, Dtype dtype) {
  std::vector<float> values(bytes.size() / SizeOf(dtype).value);
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t narrow = 0;
    if (dtype == Dtype::kF32) std::memcpy(&values[i], &bytes[4 * i], 4);
    if (dtype != Dtype::kF32) std::memcpy(&narrow, &bytes[2 * i], 2);
    if (dtype != Dtype::kF32) values[i] = FromNarrow(narrow, dtype);
  }
  return values;
}

using ExchangeFunction = std::function<absl::Status(RankGroup&, const Slice&)>;

// One rank's part: twice, so that what one exchange leaves does not reach the next.
absl::Status ExchangeTwice(Transport& transport, const std::vector<int>& members, Dtype dtype,
                           const ExchangeFunction& exchange, std::vector<float>& values) {
  const std::unique_ptr<DeviceQueue> queue = Open(transport.rank());
  std::vector<std::byte> bytes = Stored(values, dtype);
  ASSIGN_OR_RETURN(const std::unique_ptr<Buffer> buffer,
                   queue->Allocate({64 + static_cast<int64_t>(bytes.size())}));
  const Slice x = {buffer.get(), 64, static_cast<int64_t>(values.size()), dtype};
  int waits = 0;
  StagedRankGroup group(*queue, transport, members, kChannel, [](int64_t) { return CollectiveChoice(); },
                        {.deadline = [] { return Now() + absl::Seconds(60); },
                         .waits_for_peers = [&](bool waiting) { waits += waiting ? 1 : -1; }});
  for (int round = 0; round < 2; ++round) {
    RETURN_IF_ERROR(queue->Upload(bytes, *buffer, {64}));
    RETURN_IF_ERROR(exchange(group, x));
  }
  RETURN_IF_ERROR(queue->Download(*buffer, {64}, absl::MakeSpan(bytes)));
  RETURN_IF_ERROR(queue->Wait(queue->Record()));
  values = Loaded(bytes, dtype);
  return waits == 0 ? absl::OkStatus() : absl::InternalError("it still waits");
}

// What each rank has of its `values`, stored as `dtype`, after `exchange`.
std::vector<std::vector<float>> Exchange(std::vector<std::vector<float>> values, Dtype dtype,
                                         const ExchangeFunction& exchange) {
  const int ranks = static_cast<int>(values.size());
  LoopbackFabric fabric(ranks + 1);  // of the attempt, of which the first one is not in the unit
  std::vector<int> members(ranks);
  std::iota(members.begin(), members.end(), 1);
  std::vector<absl::Status> statuses(ranks);
  std::vector<std::thread> threads;
  for (int m = 0; m < ranks; ++m) {
    threads.emplace_back([&, m] {
      const std::unique_ptr<Transport> transport = fabric.Join(members[m]);
      statuses[m] = ExchangeTwice(*transport, members, dtype, exchange, values[m]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) {
    INFO(status.ToString());
    REQUIRE(status.ok());
  }
  return values;
}

std::vector<std::vector<float>> Values(int ranks, int elements) {
  std::mt19937_64 random(ranks * 1000 + elements);
  std::vector<std::vector<float>> values(ranks, std::vector<float>(elements));
  for (std::vector<float>& of_rank : values) {
    // Exact in each type, and so are their sums.
    for (float& value : of_rank) value = static_cast<float>(static_cast<int>(random() % 33) - 16);
  }
  return values;
}

TEST_CASE("ranks that sum have the sum, the same bits on all of them, in every type") {
  const int ranks = GENERATE(2, 3, 4), elements = GENERATE(1, 2, 37, 4096);
  const Dtype dtype = GENERATE(Dtype::kF32, Dtype::kBf16, Dtype::kF16);
  CAPTURE(ranks, elements, NameOf(dtype));
  const std::vector<std::vector<float>> values = Values(ranks, elements);
  const auto sums = Exchange(values, dtype, [](RankGroup& group, const Slice& x) { return group.Sum(x); });
  for (int i = 0; i < elements; ++i) {
    float want = 0;
    for (const std::vector<float>& of_rank : values) want += of_rank[i];
    for (const std::vector<float>& sum : sums) CHECK(sum[i] == want);
  }
}

TEST_CASE("a sum that is begun travels beside what the queue is given, and is there behind its end") {
  const int ranks = GENERATE(2, 3), elements = GENERATE(1, 4096);
  const Dtype dtype = GENERATE(Dtype::kF32, Dtype::kBf16);
  CAPTURE(ranks, elements, NameOf(dtype));
  const std::vector<std::vector<float>> values = Values(ranks, elements);
  // The others begin when the first one has begun, and goes on.
  absl::Notification begun;
  const auto sums = Exchange(values, dtype, [&](RankGroup& group, const Slice& x) -> absl::Status {
    if (group.member() > 0) begun.WaitForNotification();
    RETURN_IF_ERROR(group.BeginSum(x.Sub(0, x.elements / 2)));
    if (group.member() == 0 && !begun.HasBeenNotified()) begun.Notify();
    RETURN_IF_ERROR(group.EndSum());
    RETURN_IF_ERROR(group.BeginSum(x.Sub(x.elements / 2, x.elements - x.elements / 2)));
    return group.EndSum();
  });
  for (int i = 0; i < elements; ++i) {
    float want = 0;
    for (const std::vector<float>& of_rank : values) want += of_rank[i];
    for (const std::vector<float>& sum : sums) CHECK(sum[i] == want);
  }
}

TEST_CASE("ranks that gather have what each of them had of it, in every type") {
  const int ranks = GENERATE(2, 3);
  const Dtype dtype = GENERATE(Dtype::kF32, Dtype::kBf16);
  const int elements = 24;
  const std::vector<int64_t> ends =
      GENERATE_COPY(values<std::vector<int64_t>>({{1, elements}, {elements, elements}, {0, 5}, {9, 20}}));
  std::vector<int64_t> of_all = ends;
  of_all.resize(ranks, elements);
  of_all.back() = elements;
  CAPTURE(ranks, NameOf(dtype), of_all[0], of_all[1]);
  const std::vector<std::vector<float>> values = Values(ranks, elements);
  const auto gathered =
      Exchange(values, dtype, [&](RankGroup& group, const Slice& x) { return group.Gather(x, of_all); });
  for (int i = 0; i < elements; ++i) {
    int holder = 0;
    while (i >= of_all[holder]) ++holder;
    for (const std::vector<float>& own : gathered) CHECK(own[i] == values[holder][i]);
  }
}

TEST_CASE("ranks that scatter have the sum of their own part, however uneven, in every type") {
  const int ranks = GENERATE(2, 3, 4), elements = GENERATE(4, 37, 4096);
  const Dtype dtype = GENERATE(Dtype::kF32, Dtype::kBf16, Dtype::kF16);
  std::vector<int64_t> ends =
      GENERATE(values<std::vector<int64_t>>({{1, 2, 3}, {0, 2, 4}, {3, 3, 3}, {4, 4, 4}}));
  ends.resize(ranks, elements);
  ends.back() = elements;
  CAPTURE(ranks, elements, NameOf(dtype), ends[0]);
  const std::vector<std::vector<float>> values = Values(ranks, elements);
  const auto sums =
      Exchange(values, dtype, [&](RankGroup& group, const Slice& x) { return group.Scatter(x, ends); });
  for (int i = 0; i < elements; ++i) {
    int owner = 0;
    while (i >= ends[owner]) ++owner;
    float want = 0;
    for (const std::vector<float>& of_rank : values) want += of_rank[i];
    CHECK(sums[owner][i] == want);
  }
}

TEST_CASE("a rank whose peer is gone says so") {
  LoopbackFabric fabric(2);
  const std::unique_ptr<DeviceQueue> queue = Open(0);
  const std::unique_ptr<Transport> transport = fabric.Join(0);
  const std::unique_ptr<Buffer> buffer = *queue->Allocate({400});
  StagedRankGroup group(
      *queue, *transport, {0, 1}, kChannel, [](int64_t) { return CollectiveChoice(); },
      {.deadline = [] { return Now() + absl::Seconds(60); }, .waits_for_peers = [](bool) {}});
  fabric.MarkGone(1);
  const absl::Status summed = group.Sum({buffer.get(), 0, 100}),
                     gathered = group.Gather({buffer.get(), 0, 100}, {50, 100}),
                     scattered = group.Scatter({buffer.get(), 0, 100}, {50, 100});
  CHECK(absl::IsUnavailable(summed));
  CHECK(absl::IsUnavailable(scattered));
  CHECK(absl::IsUnavailable(gathered));
  CHECK_THAT(std::string(summed.message()), Catch::Contains("rank 1"));
}

}  // namespace
}  // namespace medley
