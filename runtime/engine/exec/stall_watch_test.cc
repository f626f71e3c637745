#include "runtime/engine/exec/stall_watch.h"

#include <catch2/catch.hpp>
#include <vector>

#include "comm/loopback/loopback_fabric.h"
#include "runtime/base/clock.h"

namespace medley {
namespace {

Instruction Reduction() {
  return {
      .kind = InstructionKind::kReduceGradients, .stream = Stream::kCollective, .slice = 2, .bytes = MiB(4)};
}

Instruction Forward() {
  return {.kind = InstructionKind::kForward, .stream = Stream::kCompute, .micro_batch = 3};
}

// What was reported, and waiting for it.
class Reports {
 public:
  void Add(const std::string& text) {
    MutexLock lock(mutex_);
    texts_.push_back(text);
    changed_.NotifyAll();
  }
  std::vector<std::string> AwaitAtLeast(size_t count) {
    MutexLock lock(mutex_);
    changed_.WaitUntil(mutex_, Now() + absl::Seconds(20), [&] { return texts_.size() >= count; });
    return texts_;
  }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<std::string> texts_;
};

TEST_CASE("a board says what each stream is at, and what goes on between steps") {
  ActivityBoard board;
  board.Enter("step 12");
  CHECK_THAT(board.Describe(Now()), Catch::Matches("step 12 for [0-9.]+ s"));
  board.Begin(Forward(), {});
  board.Begin(Reduction(), {0, 3});
  const absl::Time now = Now() + absl::Seconds(5);
  CHECK_THAT(board.Describe(now),
             Catch::StartsWith("step 12: forward of micro-batch 3 for 5.0 s; reduce gradients of "
                               "slice 2 (4.0 MiB) with ranks 0, 3 for 5.0 s"));
  board.End(Stream::kCompute);
  REQUIRE(board.Running().size() == 1);
  CHECK(board.Running()[0].instruction.slice == 2);
  board.End(Stream::kCollective);
  board.Enter("checkpoint of step 12");
  CHECK_THAT(board.Describe(Now()), Catch::StartsWith("checkpoint of step 12 for "));
}

TEST_CASE("a stall report has both sides: what is waited for, what has come, and what the other is at") {
  LoopbackFabric fabric(2);
  const auto here = fabric.Join(0), there = fabric.Join(1);
  std::vector<std::byte> bytes(1024);
  for (int i = 0; i < 3; ++i) {
    const MessageTag tag{MessageTag::Kind::kReduce, 1, static_cast<uint32_t>(i)};
    const auto sent = there->Send(0, tag, bytes);
    const auto received = here->Receive(1, tag, absl::MakeSpan(bytes));
    REQUIRE((sent.ok() && received.ok()));
    REQUIRE((*received)->Wait(Now() + absl::Seconds(20)).ok());
  }
  ActivityBoard board, other;
  board.Enter("step 12");
  other.Enter("step 12");
  other.Begin(Forward(), {});
  board.Begin(Reduction(), {1});
  const std::string text = StallReport(board, board.Running()[0], *here, [&](const std::vector<int>& ranks) {
    CHECK(ranks == std::vector<int>{1});
    return std::vector<absl::StatusOr<std::string>>{other.Describe(Now())};
  });
  CHECK_THAT(text,
             Catch::StartsWith("rank 0, step 12: reduce gradients of slice 2 (4.0 MiB) with rank 1 for "));
  CHECK_THAT(text, Catch::Contains("from rank 1 came 3.0 KiB in 3 messages"));
  CHECK_THAT(text, Catch::Contains("rank 1 says: step 12: forward of micro-batch 3 for "));
  // All are asked at once, and each answers for itself.
  board.Begin(Reduction(), {1, 2, 3});
  int times_asked = 0;
  const std::string mixed = StallReport(board, board.Running()[0], *here, [&](const std::vector<int>& ranks) {
    ++times_asked;
    CHECK(ranks == std::vector<int>{1, 2, 3});
    return std::vector<absl::StatusOr<std::string>>{absl::UnavailableError("rank 1 is gone"), "step 3",
                                                    "step 4"};
  });
  CHECK(times_asked == 1);
  CHECK_THAT(mixed, Catch::Contains(
                        "rank 1 does not answer: rank 1 is gone; rank 2 says: step 3; rank 3 says: step 4"));
  CHECK_THAT(mixed, Catch::Contains("from rank 3 came 0 B in 0 messages"));
}

TEST_CASE("what waits for others is reported again and again, what computes is not") {
  LoopbackFabric fabric(2);
  const auto transport = fabric.Join(0);
  ActivityBoard board;
  Reports reports;
  board.Enter("step 1");
  board.Begin(Forward(), {});
  board.Begin(Reduction(), {1});
  {
    const StallWatch watch(board, *transport,
                           {.patience = absl::Milliseconds(5),
                            .ask = nullptr,
                            .report = [&](const std::string& text) { reports.Add(text); }});
    const std::vector<std::string> texts = reports.AwaitAtLeast(3);
    REQUIRE(texts.size() >= 3);
    for (const std::string& text : texts) CHECK_THAT(text, Catch::Contains("reduce gradients"));
    board.End(Stream::kCollective);
    board.Begin(
        {.kind = InstructionKind::kSendActivation, .stream = Stream::kSendActivation, .micro_batch = 7}, {1});
    const size_t before = reports.AwaitAtLeast(3).size();
    CHECK_THAT(reports.AwaitAtLeast(before + 2).back(), Catch::Contains("send activation of micro-batch 7"));
  }
}

}  // namespace
}  // namespace medley
