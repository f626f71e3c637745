#include "comm/faulty/faulty_transport.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>
#include <vector>

#include "comm/faulty/fault_plan.h"
#include "comm/loopback/loopback_fabric.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"

namespace medley {
namespace {

using Kind = FaultPlan::Verdict::Kind;
constexpr auto kSend = FaultPlan::Direction::kSend;
constexpr auto kReceive = FaultPlan::Direction::kReceive;

absl::Time Soon() { return Now() + absl::Seconds(20); }
absl::Time Shortly() { return Now() + absl::Milliseconds(30); }

MessageTag Tag(uint32_t sequence) { return {MessageTag::Kind::kActivation, 0, sequence}; }

absl::Span<std::byte> BytesOf(int& value) { return {reinterpret_cast<std::byte*>(&value), sizeof(value)}; }

std::unique_ptr<Transfer> Started(absl::StatusOr<std::unique_ptr<Transfer>> transfer) {
  INFO(transfer.status().ToString());
  REQUIRE(transfer.ok());
  return *std::move(transfer);
}

// Rank 0 with faults, rank 1 without.
struct Pair {
  explicit Pair(const FaultOptions& options, FaultyTransport::OnVanish on_vanish = nullptr)
      : zero(fabric.Join(0), options, std::move(on_vanish)), one(fabric.Join(1)) {}
  LoopbackFabric fabric{2};
  FaultyTransport zero;
  std::unique_ptr<Transport> one;
};

TEST_CASE("a plan repeats for its seed, differs for another, and is the same whatever other peers do") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{20}));
  CAPTURE(seed);
  FaultOptions options;
  options.seed = seed;
  options.every_link.maximum_delay = absl::Milliseconds(10);
  FaultPlan plan(options, 3), same(options, 3);
  options.seed = seed + 1;
  FaultPlan other(options, 3);
  const absl::Time now = Now();
  int different = 0;
  for (int i = 0; i < 50; ++i) {
    same.Next(kReceive, 2, 10, now);
    const absl::Time due = plan.Next(kSend, 1, 100, now).due;
    CHECK(due == same.Next(kSend, 1, 100, now).due);
    different += due != other.Next(kSend, 1, 100, now).due;
    CHECK(due >= now);
    CHECK(due <= now + absl::Milliseconds(10));
  }
  CHECK(different > 40);
}

TEST_CASE("a slow link has room for one message after the other, in one direction") {
  FaultOptions options;
  options.by_peer[1].bytes_per_second = 1000;
  FaultPlan plan(options, 0);
  const absl::Time now = Now();
  CHECK(plan.Next(kSend, 1, 500, now).due == now + absl::Milliseconds(500));
  CHECK(plan.Next(kSend, 1, 250, now).due == now + absl::Milliseconds(750));
  CHECK(plan.Next(kReceive, 1, 500, now).due == absl::InfinitePast());
  CHECK(plan.Next(kSend, 2, 500, now).due == absl::InfinitePast());
  const absl::Time later = now + absl::Seconds(10);
  CHECK(plan.Next(kSend, 1, 100, later).due == later + absl::Milliseconds(100));
}

TEST_CASE("stalls count by link, vanishing counts them all") {
  FaultOptions options;
  options.every_link.stall_after_operations = 2;
  options.vanish_at_operation = 6;
  FaultPlan plan(options, 0);
  const absl::Time now = Now();
  CHECK(plan.Next(kSend, 1, 1, now).kind == Kind::kStart);
  CHECK(plan.Next(kReceive, 1, 1, now).kind == Kind::kStart);
  CHECK(plan.Next(kSend, 1, 1, now).kind == Kind::kStall);
  CHECK(plan.Next(kReceive, 1, 1, now).kind == Kind::kStall);
  CHECK(plan.Next(kSend, 2, 1, now).kind == Kind::kStart);
  CHECK(plan.Next(kSend, 3, 1, now).kind == Kind::kVanish);
  CHECK(plan.Next(kSend, 4, 1, now).kind == Kind::kVanish);
}

TEST_CASE("messages of several tags overtake each other, those of one tag do not") {
  FaultOptions options;
  options.seed = 5;
  options.every_link.maximum_delay = absl::Milliseconds(20);
  constexpr int kMessages = 60, kTags = 20;
  int overtaken = 0;
  // A machine that stops between two looks sees none overtake another: it looks again.
  for (int attempt = 0; attempt < 100 && overtaken == 0; ++attempt) {
    Pair pair(options);
    std::vector<int> out(kMessages), in(kMessages, -1);
    std::iota(out.begin(), out.end(), 0);
    std::vector<std::unique_ptr<Transfer>> receives, sends;
    for (int i = 0; i < kMessages; ++i)
      receives.push_back(Started(pair.one->Receive(0, Tag(i % kTags), BytesOf(in[i]))));
    for (int i = 0; i < kMessages; ++i)
      sends.push_back(Started(pair.zero.Send(1, Tag(i % kTags), BytesOf(out[i]))));
    for (int i = kMessages; i-- > 0;) {
      // A later message is here while an earlier one of another tag is not.
      REQUIRE(receives[i]->Wait(Soon()).ok());
      for (int j = 0; j < i; ++j) overtaken += !receives[j]->Done();
    }
    REQUIRE(in == out);
  }
  CHECK(overtaken > 0);
}

TEST_CASE("a slow link takes the time that it should") {
  FaultOptions options;
  options.every_link.bytes_per_second = 1e6;
  Pair pair(options);
  std::vector<std::byte> out(20000), in(20000);
  const absl::Time begin = Now();
  const auto first = Started(pair.zero.Send(1, Tag(1), out)),
             second = Started(pair.zero.Send(1, Tag(2), out));
  const auto receive = Started(pair.one->Receive(0, Tag(2), absl::MakeSpan(in)));
  CHECK(receive->Wait(Soon()).ok());
  CHECK(Now() - begin >= absl::Milliseconds(39));
}

TEST_CASE("a stalled link ends at the deadline by name, and for good when the peer is marked as gone") {
  FaultOptions options;
  options.by_peer[1].stall_after_operations = 1;
  Pair pair(options);
  int out = 7, in = 0, second = 0;
  CHECK(Started(pair.zero.Send(1, Tag(1), BytesOf(out)))->Wait(Soon()).ok());
  const auto send = Started(pair.zero.Send(1, Tag(2), BytesOf(out)));
  const auto receive = Started(pair.zero.Receive(1, Tag(3), BytesOf(in)));
  const auto arrived = Started(pair.zero.Receive(1, Tag(4), BytesOf(second)));
  CHECK(Started(pair.one->Send(0, Tag(4), BytesOf(out)))->Wait(Soon()).ok());
  CHECK(!send->Done());
  for (const auto& [transfer, words] : {std::pair{&send, "send of 4 bytes to rank 1"},
                                        std::pair{&receive, "receive of 4 bytes from rank 1"}}) {
    const absl::Status late = (*transfer)->Wait(Shortly());
    CHECK(absl::IsDeadlineExceeded(late));
    CHECK_THAT(std::string(late.message()), Catch::Contains(words) && Catch::Contains("sequence"));
  }
  pair.zero.MarkGone(1, "the cable was cut");
  for (const auto* transfer : {&send, &receive}) {
    const absl::Status gone = (*transfer)->Wait(Soon());
    CHECK(absl::IsUnavailable(gone));
    CHECK_THAT(std::string(gone.message()), Catch::Contains("the cable was cut"));
  }
  CHECK(arrived->Wait(Soon()).ok());  // the other side had sent it before
  CHECK(second == 7);
  CHECK(absl::IsUnavailable(Started(pair.zero.Send(1, Tag(5), BytesOf(out)))->Wait(Soon())));
}

TEST_CASE("abort ends a stall, and a stalled transfer may be destroyed") {
  FaultOptions options;
  options.every_link.stall_after_operations = 0;
  Pair pair(options);
  int value = 1;
  { const auto dropped = Started(pair.zero.Send(1, Tag(1), BytesOf(value))); }
  const auto send = Started(pair.zero.Send(1, Tag(1), BytesOf(value)));
  pair.zero.Abort("enough");
  CHECK(send->Wait(Soon()) == absl::CancelledError("enough"));
}

TEST_CASE("a rank that vanishes leaves what it had sent, then silence, and tells the test once") {
  FaultOptions options;
  options.vanish_at_operation = 3;
  Mutex mutex;
  ConditionVariable changed;
  int calls = 0;
  Pair pair(options, [&] {
    MutexLock lock(mutex);
    ++calls;
    changed.NotifyAll();
  });
  int out = 7, in = 0;
  CHECK(Started(pair.zero.Send(1, Tag(1), BytesOf(out)))->Wait(Soon()).ok());
  const auto waiting = Started(pair.zero.Receive(1, Tag(9), BytesOf(in)));
  const auto last = Started(pair.zero.Send(1, Tag(2), BytesOf(out)));
  CHECK(absl::IsCancelled(last->Wait(Soon())));
  CHECK(absl::IsCancelled(waiting->Wait(Soon())));
  CHECK(absl::IsCancelled(Started(pair.zero.Send(1, Tag(3), BytesOf(out)))->Wait(Soon())));
  {
    MutexLock lock(mutex);
    CHECK(changed.WaitUntil(mutex, Soon(), [&] { return calls == 1; }));
  }
  CHECK(Started(pair.one->Receive(0, Tag(1), BytesOf(in)))->Wait(Soon()).ok());
  CHECK(in == 7);
  const auto silent = Started(pair.one->Receive(0, Tag(2), BytesOf(in)));
  CHECK(absl::IsDeadlineExceeded(silent->Wait(Shortly())));
  pair.one->MarkGone(0, "silent for 4 s");
  CHECK(absl::IsUnavailable(silent->Wait(Soon())));
  MutexLock lock(mutex);
  CHECK(calls == 1);
}

}  // namespace
}  // namespace medley
