#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "comm/conformance/contract_test.h"
#include "runtime/base/clock.h"

namespace medley {
namespace {

TEST_CASE("a rank that is gone fails the transfers with it within the deadline, by name") {
  CLUSTER_OF(3);
  Message got(5), early(5);
  const Message message = RandomMessage(5, 4);
  CHECK_OK(Started(cluster->rank(2).Send(0, {MessageTag::Kind::kProbe, 1, 1}, message))->Wait(Soon()));
  // Proof that the one before it has arrived.
  CHECK_OK(Started(cluster->rank(2).Send(0, {MessageTag::Kind::kProbe, 1, 2}, message))->Wait(Soon()));
  CHECK_OK(Started(cluster->rank(0).Receive(2, {MessageTag::Kind::kProbe, 1, 2}, absl::MakeSpan(early)))
               ->Wait(Soon()));
  const auto receive = Started(cluster->rank(0).Receive(2, kTag, absl::MakeSpan(got)));
  cluster->Crash(2);
  const bool noticed = kind.crashes == TransportUnderTest::Crashes::kAreNoticed;
  const absl::Status status = receive->Wait(noticed ? Soon() : At(absl::Milliseconds(50)));
  CAPTURE(status.ToString());
  CHECK(status.code() == (noticed ? absl::StatusCode::kUnavailable : absl::StatusCode::kDeadlineExceeded));
  CHECK_THAT(std::string(status.message()), Catch::Contains("rank 2"));
  if (noticed) CHECK(absl::IsUnavailable(Started(cluster->rank(0).Send(2, kTag, message))->Wait(Soon())));
  // What it sent before is still there, and the others go on.
  early.assign(5, std::byte{});
  CHECK_OK(Started(cluster->rank(0).Receive(2, {MessageTag::Kind::kProbe, 1, 1}, absl::MakeSpan(early)))
               ->Wait(Soon()));
  CHECK(early == message);
  const auto send = Started(cluster->rank(0).Send(1, kTag, message));
  CHECK_OK(Started(cluster->rank(1).Receive(0, kTag, absl::MakeSpan(got)))->Wait(Soon()));
  CHECK(got == message);
}

TEST_CASE("a peer marked as gone fails what needs it, with the first reason, and nothing else") {
  CLUSTER_OF(3);
  Transport& zero = cluster->rank(0);
  Message got(5), early(5), other(5);
  const Message message = RandomMessage(5, 4);
  constexpr MessageTag kFirst{MessageTag::Kind::kProbe, 1, 1}, kProof{MessageTag::Kind::kProbe, 1, 2};
  const auto first = Started(cluster->rank(2).Send(0, kFirst, message));
  const auto proof = Started(cluster->rank(2).Send(0, kProof, message));
  CHECK_OK(first->Wait(Soon()));
  CHECK_OK(proof->Wait(Soon()));
  // Proof that the one before it has arrived: links keep their order, faulty ones once a send is done.
  CHECK_OK(Started(zero.Receive(2, kProof, absl::MakeSpan(early)))->Wait(Soon()));
  const auto waiting = Started(zero.Receive(2, kTag, absl::MakeSpan(got)));
  const auto unaffected = Started(zero.Receive(1, kTag, absl::MakeSpan(other)));
  CHECK(!waiting->Done());
  for (const char* why : {"silent for 4 s", "another reason", "silent for 4 s"}) {
    zero.MarkGone(2, why);
    for (const absl::Status& status :
         {waiting->Wait(Soon()), Started(zero.Receive(2, kTag, absl::MakeSpan(got)))->Wait(Soon()),
          Started(zero.Send(2, kTag, message))->Wait(Soon())}) {
      CAPTURE(status.ToString());
      CHECK(absl::IsUnavailable(status));
      CHECK_THAT(std::string(status.message()),
                 Catch::Contains("rank 2") && Catch::Contains("silent for 4 s"));
    }
  }
  CHECK(waiting->Done());
  // What it sent before is still there.
  early.assign(5, std::byte{});
  CHECK_OK(Started(zero.Receive(2, kFirst, absl::MakeSpan(early)))->Wait(Soon()));
  CHECK(early == message);
  // Rank 1 is none of it, and rank 1 and rank 2 have heard nothing.
  const auto to_zero = Started(cluster->rank(1).Send(0, kTag, message));
  CHECK_OK(unaffected->Wait(Soon()));
  CHECK(other == message);
  const auto to_two = Started(cluster->rank(1).Send(2, kTag, message));
  CHECK_OK(Started(cluster->rank(2).Receive(1, kTag, absl::MakeSpan(got)))->Wait(Soon()));
  CHECK(got == message);
}

TEST_CASE("marking a peer as gone wakes the threads that wait for it, large sends included") {
  CLUSTER_OF(2);
  constexpr int kThreads = 4;
  std::vector<absl::Status> statuses(kThreads);
  std::vector<std::thread> threads;
  const Message large = RandomMessage(32 << 20, 1);
  std::vector<Message> got(kThreads - 1, Message(64));
  {
    std::vector<std::unique_ptr<Transfer>> transfers;
    for (int i = 0; i < kThreads - 1; ++i) {
      const MessageTag tag{MessageTag::Kind::kReduce, 0, static_cast<uint32_t>(i)};
      transfers.push_back(Started(cluster->rank(0).Receive(1, tag, absl::MakeSpan(got[i]))));
    }
    transfers.push_back(Started(cluster->rank(0).Send(1, kTag, large)));
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] { statuses[i] = transfers[i]->Wait(Soon()); });
    }
    const absl::Time before = Now();
    cluster->rank(0).MarkGone(1, "connection reset");
    for (std::thread& thread : threads) thread.join();
    CHECK(Now() - before < absl::Seconds(15));
  }
  for (int i = 0; i < kThreads; ++i) {
    CAPTURE(i, statuses[i].ToString());
    // A transport that copies has sent the large one at once.
    CHECK((absl::IsUnavailable(statuses[i]) || (i == kThreads - 1 && statuses[i].ok())));
  }
}

TEST_CASE("marking nobody, oneself or all as gone is harmless") {
  CLUSTER_OF(3);
  Message got(5);
  const Message message = RandomMessage(5, 1);
  for (const int nobody : {-1, 0, 3}) cluster->rank(0).MarkGone(nobody, "no such rank");
  const auto send = Started(cluster->rank(0).Send(1, kTag, message));
  CHECK_OK(Started(cluster->rank(1).Receive(0, kTag, absl::MakeSpan(got)))->Wait(Soon()));
  CHECK(got == message);
  for (const int peer : {1, 2}) cluster->rank(0).MarkGone(peer, "power cut");
  CHECK(absl::IsUnavailable(Started(cluster->rank(0).Send(1, kTag, message))->Wait(Soon())));
  cluster->rank(0).Abort("over");
  CHECK(absl::IsCancelled(Started(cluster->rank(0).Send(1, kTag, message))->Wait(Soon())));
}

}  // namespace
}  // namespace medley
