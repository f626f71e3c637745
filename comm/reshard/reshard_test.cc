#include "comm/reshard/reshard.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "comm/conformance/test_cluster.h"
#include "comm/faulty/faulty_transport.h"
#include "comm/loopback/loopback_fabric.h"
#include "comm/reshard/random_problem.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

using Bytes = std::vector<std::byte>;

absl::Time Soon() { return Now() + absl::Seconds(20); }

Bytes RandomTensor(const ReshardProblem& problem, uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes tensor(problem.rows * problem.columns * problem.element_bytes);
  for (std::byte& byte : tensor) byte = static_cast<std::byte>(random());
  return tensor;
}

Bytes SliceOf(const Bytes& tensor, const ReshardProblem& problem, const std::vector<ReshardSlice>& slices,
              int rank) {
  Bytes bytes;
  for (const ReshardSlice& slice : slices) {
    if (slice.rank != rank) continue;
    for (int64_t row = 0; row < problem.rows; ++row) {
      const auto begin = tensor.begin() + row * problem.columns * problem.element_bytes;
      bytes.insert(bytes.end(), begin + slice.column_begin * problem.element_bytes,
                   begin + slice.column_end * problem.element_bytes);
    }
  }
  return bytes;
}

struct Job {
  ReshardPlan plan;
  Bytes tensor;
  Reshard::Options options;
};

Job MakeJob(const ReshardProblem& problem, int64_t message_bytes, size_t scratch_bytes, uint32_t sequence) {
  const absl::StatusOr<ReshardPlan> plan = PlanReshard(problem, message_bytes);
  INFO(plan.status().ToString());
  REQUIRE(plan.ok());
  return {*plan, RandomTensor(problem, sequence), {.sequence = sequence, .scratch_bytes = scratch_bytes}};
}

// One rank's part in all jobs at once, started one after the other.
absl::Status Play(Transport& transport, const std::vector<Job>& jobs) {
  const int rank = transport.rank();
  std::vector<Bytes> sources, targets, expected;
  std::vector<std::unique_ptr<Reshard>> parts;
  for (const Job& job : jobs) {
    const ReshardProblem& problem = job.plan.problem;
    sources.push_back(SliceOf(job.tensor, problem, problem.senders, rank));
    expected.push_back(SliceOf(job.tensor, problem, problem.receivers, rank));
    targets.emplace_back(expected.back().size());
  }
  for (size_t i = 0; i < jobs.size(); ++i) {
    ASSIGN_OR_RETURN(parts.emplace_back(), Reshard::Start(transport, jobs[i].plan, jobs[i].options,
                                                          sources[i], absl::MakeSpan(targets[i])));
  }
  // Only what is driven moves, and a rank may not hold up one job by waiting for another.
  const absl::Time deadline = Soon();
  for (bool all_done = false; !all_done;) {
    all_done = true;
    for (const auto& part : parts) {
      ASSIGN_OR_RETURN(const bool done, part->Progress());
      all_done = all_done && done;
    }
    if (Now() > deadline) return parts[0]->Wait(deadline);
    std::this_thread::yield();
  }
  for (size_t i = 0; i < jobs.size(); ++i) {
    RETURN_IF_ERROR(parts[i]->Wait(absl::InfinitePast()));
    if (targets[i] != expected[i])
      return absl::DataLossError(absl::StrCat("job ", i, " brought something else"));
  }
  return absl::OkStatus();
}

absl::Status PlayOneByOne(Transport& transport, const std::vector<Job>& jobs) {
  for (const Job& job : jobs) {
    const ReshardProblem& problem = job.plan.problem;
    const Bytes source = SliceOf(job.tensor, problem, problem.senders, transport.rank());
    const Bytes expected = SliceOf(job.tensor, problem, problem.receivers, transport.rank());
    Bytes target(expected.size());
    ASSIGN_OR_RETURN(const auto part,
                     Reshard::Start(transport, job.plan, job.options, source, absl::MakeSpan(target)));
    RETURN_IF_ERROR(part->Wait(Soon()));
    if (target != expected) return absl::DataLossError("something else came");
  }
  return absl::OkStatus();
}

uint64_t CrossingBytes(TestCluster& cluster, const ReshardProblem& problem) {
  uint64_t bytes = 0;
  for (const ReshardSlice& sender : problem.senders) {
    for (const PeerTraffic& traffic : cluster.rank(sender.rank).Traffic()) bytes += traffic.bytes_sent;
  }
  return bytes;
}

std::unique_ptr<TestCluster> Open(const TransportUnderTest& kind, int size) {
  absl::StatusOr<std::unique_ptr<TestCluster>> cluster = kind.open(size);
  INFO(cluster.status().ToString());
  REQUIRE(cluster.ok());
  return *std::move(cluster);
}

TEST_CASE("random tensors between random units arrive to the bit, over every transport", "[property]") {
  const TransportUnderTest kind =
      AllTransports()[GENERATE(range(size_t{0}, size_t{TransportUnderTest::kKinds}))];
  CAPTURE(kind.name);
  const auto cluster = Open(kind, 16);
  std::vector<Job> jobs;
  for (uint32_t seed = 0; seed < 12; ++seed) {
    const ReshardProblem problem = RandomReshardProblem(seed, 40);
    jobs.push_back(MakeJob(problem, 100 + seed * 400, seed % 2 == 0 ? 1 : 5000, seed));
  }
  for (const auto& play : {PlayOneByOne, Play}) {
    for (const absl::Status& status : cluster->OnEveryRank([&](Transport& t) { return play(t, jobs); })) {
      INFO(status.ToString());
      CHECK(status.ok());
    }
  }
}

TEST_CASE("the transport counts as many bytes across as the tensor has, in large messages too",
          "[property]") {
  const size_t index = GENERATE(range(size_t{0}, size_t{TransportUnderTest::kKinds}));
  const TransportUnderTest kind = AllTransports()[index];
  const bool replicated = GENERATE(true, false);
  CAPTURE(kind.name, replicated);
  const auto cluster = Open(kind, 5);
  ReshardProblem problem{
      1001, 1023, 4, {{1, 0, 700}, {3, 700, 1023}}, {{0, 0, 100}, {2, 100, 555}, {4, 555, 1023}}};
  if (replicated) {
    for (ReshardSlice& slice : problem.receivers)
      std::tie(slice.column_begin, slice.column_end) = std::pair{0, 1023};
  }
  const std::vector<Job> jobs = {MakeJob(problem, 256 << 10, 1 << 20, 1)};
  for (const absl::Status& status :
       cluster->OnEveryRank([&](Transport& t) { return PlayOneByOne(t, jobs); })) {
    INFO(status.ToString());
    CHECK(status.ok());
  }
  CHECK(CrossingBytes(*cluster, problem) == jobs[0].tensor.size());
}

TEST_CASE("a buffer of another size and a tag out of range are refused by name") {
  LoopbackFabric fabric(3);
  const auto zero = fabric.Join(0), one = fabric.Join(1);
  const Job job = MakeJob({4, 10, 2, {{0, 0, 10}}, {{1, 0, 6}, {2, 6, 10}}}, 1000, 1000, 1);
  Bytes source(80), target(48), wrong(47);
  const auto refused = [&](Transport& transport, const Reshard::Options& options,
                           absl::Span<const std::byte> from, absl::Span<std::byte> to, const char* words) {
    const absl::Status status = Reshard::Start(transport, job.plan, options, from, to).status();
    CAPTURE(status.ToString());
    CHECK(absl::IsInvalidArgument(status));
    CHECK_THAT(std::string(status.message()), Catch::Contains(words));
  };
  refused(*zero, {}, wrong, {}, "source is of 47 bytes, and this rank's slice of 80");
  refused(*one, {}, {}, absl::MakeSpan(wrong), "target is of 47 bytes, and this rank's slice of 48");
  refused(*one, {}, source, absl::MakeSpan(target), "source is of 80 bytes, and this rank's slice of 0");
  refused(*zero, {.sequence = 1 << 30}, source, {}, "sequence");
}

TEST_CASE("who waits in vain learns for which message and from whom, and may wait on") {
  LoopbackFabric fabric(2);
  const auto zero = fabric.Join(0), one = fabric.Join(1);
  const Job job = MakeJob({4, 10, 2, {{0, 0, 10}}, {{1, 0, 10}}}, 1000, 1000, 1);
  Bytes target(80);
  auto receiver = Reshard::Start(*one, job.plan, job.options, {}, absl::MakeSpan(target));
  REQUIRE(receiver.ok());
  const absl::Status late = (*receiver)->Wait(Now() + absl::Milliseconds(20));
  CAPTURE(late.ToString());
  CHECK(absl::IsDeadlineExceeded(late));
  CHECK_THAT(std::string(late.message()), Catch::Contains("message 0 of 1, rank 0 to rank 1") &&
                                              Catch::Contains("0 of 80 bytes") && Catch::Contains("4 x 10"));
  auto sender = Reshard::Start(*zero, job.plan, job.options, job.tensor, {});
  REQUIRE(sender.ok());
  CHECK((*receiver)->Wait(Soon()).ok());
  CHECK((*sender)->Wait(Soon()).ok());
  CHECK(target == job.tensor);
}

TEST_CASE("a rank that vanishes in the middle ends everybody's part", "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{12}));
  CAPTURE(seed);
  constexpr int kRanks = 6;
  const int victim = static_cast<int>(seed % kRanks);
  const Job job =
      MakeJob({50, 100, 4, {{0, 0, 40}, {1, 40, 50}, {2, 50, 100}}, {{3, 0, 100}, {4, 0, 100}, {5, 0, 100}}},
              500, 2000, 1);
  LoopbackFabric fabric(kRanks);
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < kRanks; ++rank) {
    FaultOptions options;
    options.seed = seed;
    options.every_link.maximum_delay = absl::Milliseconds(1);
    if (rank == victim) options.vanish_at_operation = 1 + seed % 4;
    transports.push_back(std::make_unique<FaultyTransport>(fabric.Join(rank), options, [&transports, rank] {
      for (int other = 0; other < kRanks; ++other) {
        if (other != rank) transports[other]->MarkGone(rank, "silent for 4 s");
      }
    }));
  }
  std::vector<absl::Status> statuses(kRanks);
  std::vector<std::thread> threads;
  const absl::Time begin = Now();
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      statuses[rank] = PlayOneByOne(*transports[rank], {job});
      // Who fails says so, as the attempt's end would.
      if (!statuses[rank].ok()) transports[rank]->Abort("failed");
      for (int other = 0; other < kRanks && !statuses[rank].ok(); ++other) {
        if (other != rank) transports[other]->MarkGone(rank, "it failed");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  transports[victim].reset();  // while the others are there for it to tell
  CHECK(Now() - begin < absl::Seconds(10));
  CHECK(absl::IsCancelled(statuses[victim]));
  int told = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    CAPTURE(rank, statuses[rank].ToString());
    // A sender may have sent all before.
    CHECK((absl::IsUnavailable(statuses[rank]) || absl::IsCancelled(statuses[rank]) ||
           (rank < 3 && statuses[rank].ok())));
    told += absl::IsUnavailable(statuses[rank]);
  }
  CHECK(told > 0);
}

}  // namespace
}  // namespace medley
