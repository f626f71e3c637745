#include <atomic>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "comm/conformance/test_cluster.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

using Message = std::vector<std::byte>;
constexpr MessageTag kTag{MessageTag::Kind::kActivation, 3, 9};

absl::Time Soon() { return absl::Now() + absl::Seconds(20); }
absl::Time At(absl::Duration duration) { return absl::Now() + duration; }

Message RandomMessage(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  Message message(size);
  for (std::byte& byte : message) byte = static_cast<std::byte>(random());
  return message;
}

// Opens `size` ranks of the kind under test and tells which one it is.
std::unique_ptr<TestCluster> Open(const TransportUnderTest& kind, int size) {
  absl::StatusOr<std::unique_ptr<TestCluster>> cluster = kind.open(size);
  INFO(cluster.status().ToString());
  REQUIRE(cluster.ok());
  return *std::move(cluster);
}

#define CLUSTER_OF(size)                                                       \
  const TransportUnderTest kind = GENERATE(from_range(AllTransports()));       \
  CAPTURE(kind.name);                                                          \
  const std::unique_ptr<TestCluster> cluster = Open(kind, size)

std::unique_ptr<Transfer> Started(absl::StatusOr<std::unique_ptr<Transfer>> transfer) {
  INFO(transfer.status().ToString());
  REQUIRE(transfer.ok());
  return *std::move(transfer);
}

#define CHECK_OK(expr)                    \
  do {                                    \
    const absl::Status status_ = (expr);  \
    INFO(status_.ToString());             \
    CHECK(status_.ok());                  \
  } while (false)

TEST_CASE("a message arrives as it was sent, whatever its size and whoever comes first") {
  const size_t size = GENERATE(0, 1, 8, 1000, 8192, 65536, 300001, 16 << 20);
  const bool receive_first = GENERATE(true, false);
  CAPTURE(size, receive_first);
  CLUSTER_OF(2);
  const Message message = RandomMessage(size, size);
  Message got(size);
  std::unique_ptr<Transfer> send, receive;
  if (!receive_first) send = Started(cluster->rank(0).Send(1, kTag, message));
  receive = Started(cluster->rank(1).Receive(0, kTag, absl::MakeSpan(got)));
  if (receive_first) send = Started(cluster->rank(0).Send(1, kTag, message));
  CHECK_OK(receive->Wait(Soon()));
  CHECK_OK(send->Wait(Soon()));
  CHECK_OK(send->Wait(absl::InfinitePast()));  // repeats its answer
  CHECK(got == message);
}

TEST_CASE("messages of one tag arrive in order, those of others and of other ranks do not mix",
          "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{3}));
  CAPTURE(seed);
  CLUSTER_OF(3);
  // Both peers of rank 0 send on three tags; small and large messages alternate.
  constexpr int kTags = 3, kEach = 20;
  const auto size = [&](int from, int tag, int i) {
    return size_t{1} << (seed + from * 5 + tag + i * 7) % 18;
  };
  const auto message = [&](int from, int tag, int i) {
    return RandomMessage(size(from, tag, i), seed * 100000 + from * 10000 + tag * 1000 + i);
  };
  const auto statuses = cluster->OnEveryRank([&](Transport& transport) -> absl::Status {
    std::vector<Message> messages;
    std::vector<std::unique_ptr<Transfer>> transfers;
    messages.reserve(2 * kTags * kEach);
    const int me = transport.rank();
    for (const int from : me == 0 ? std::vector<int>{2, 1} : std::vector<int>{me}) {
      for (int tag = 0; tag < kTags; ++tag) {
        for (int i = 0; i < kEach; ++i) {
          const MessageTag wire{MessageTag::Kind::kGradient, static_cast<uint16_t>(tag), 0};
          if (me == 0) {
            messages.emplace_back(size(from, tag, i));
            ASSIGN_OR_RETURN(transfers.emplace_back(),
                             transport.Receive(from, wire, absl::MakeSpan(messages.back())));
          } else {
            messages.push_back(message(from, tag, i));
            ASSIGN_OR_RETURN(transfers.emplace_back(), transport.Send(0, wire, messages.back()));
          }
        }
      }
    }
    for (const auto& transfer : transfers) RETURN_IF_ERROR(transfer->Wait(Soon()));
    if (me != 0) return absl::OkStatus();
    size_t at = 0;
    for (const int from : {2, 1}) {
      for (int tag = 0; tag < kTags; ++tag) {
        for (int i = 0; i < kEach; ++i) {
          if (messages[at++] != message(from, tag, i)) return absl::DataLossError("another message came");
        }
      }
    }
    return absl::OkStatus();
  });
  for (const absl::Status& status : statuses) CHECK_OK(status);
}

TEST_CASE("a thousand messages may be under way at once, both ways") {
  CLUSTER_OF(2);
  constexpr int kMessages = 1000;
  const auto statuses = cluster->OnEveryRank([&](Transport& transport) -> absl::Status {
    const int peer = 1 - transport.rank();
    std::vector<int> out(kMessages), in(kMessages, -1);
    std::vector<std::unique_ptr<Transfer>> transfers;
    for (int i = 0; i < kMessages; ++i) {
      out[i] = transport.rank() * kMessages + i;
      const MessageTag tag{MessageTag::Kind::kActivation, 0, static_cast<uint32_t>(i)};
      ASSIGN_OR_RETURN(transfers.emplace_back(),
                       transport.Send(peer, tag, {reinterpret_cast<const std::byte*>(&out[i]), sizeof(int)}));
    }
    for (int i = kMessages - 1; i >= 0; --i) {
      const MessageTag tag{MessageTag::Kind::kActivation, 0, static_cast<uint32_t>(i)};
      ASSIGN_OR_RETURN(transfers.emplace_back(),
                       transport.Receive(peer, tag, {reinterpret_cast<std::byte*>(&in[i]), sizeof(int)}));
    }
    for (const auto& transfer : transfers) RETURN_IF_ERROR(transfer->Wait(Soon()));
    for (int i = 0; i < kMessages; ++i) {
      if (in[i] != peer * kMessages + i) return absl::DataLossError("another message came");
    }
    return absl::OkStatus();
  });
  for (const absl::Status& status : statuses) CHECK_OK(status);
}

TEST_CASE("a message of another size is Internal and names both; the next one is received") {
  const auto [sent, expected] =
      GENERATE(table<size_t, size_t>({{3, 4}, {4, 3}, {0, 1}, {300000, 8}, {8, 300000}}));
  const bool receive_first = GENERATE(true, false);
  CAPTURE(sent, expected, receive_first);
  CLUSTER_OF(2);
  const Message message = RandomMessage(sent, 1), next = RandomMessage(17, 2);
  Message got(expected), got_next(17);
  std::unique_ptr<Transfer> send, receive;
  if (!receive_first) send = Started(cluster->rank(0).Send(1, kTag, message));
  receive = Started(cluster->rank(1).Receive(0, kTag, absl::MakeSpan(got)));
  if (receive_first) send = Started(cluster->rank(0).Send(1, kTag, message));
  const absl::Status status = receive->Wait(Soon());
  CAPTURE(status.ToString());
  CHECK(absl::IsInternal(status));
  const std::string text(status.message());
  CHECK_THAT(text, Catch::Contains(std::to_string(sent)) && Catch::Contains(std::to_string(expected)));
  CHECK_OK(send->Wait(Soon()));
  receive = Started(cluster->rank(1).Receive(0, kTag, absl::MakeSpan(got_next)));
  send = Started(cluster->rank(0).Send(1, kTag, next));
  CHECK_OK(receive->Wait(Soon()));
  CHECK(got_next == next);
}

TEST_CASE("a receive that is late says so by name, and goes on") {
  CLUSTER_OF(2);
  Message got(5);
  const auto receive = Started(cluster->rank(1).Receive(0, kTag, absl::MakeSpan(got)));
  const absl::Time before = absl::Now();
  const absl::Status late = receive->Wait(At(absl::Milliseconds(30)));
  CHECK(absl::IsDeadlineExceeded(late));
  CHECK(absl::Now() - before >= absl::Milliseconds(29));
  CHECK(absl::Now() - before < absl::Seconds(5));
  const std::string text(late.message());
  CHECK_THAT(text, Catch::Contains("5 bytes") && Catch::Contains("rank 0") && Catch::Contains("sequence 9"));
  const Message message = RandomMessage(5, 3);
  const auto send = Started(cluster->rank(0).Send(1, kTag, message));
  CHECK_OK(receive->Wait(Soon()));
  CHECK(got == message);
}

TEST_CASE("the message of a cancelled receive goes to the next receive") {
  CLUSTER_OF(2);
  Message got(5);
  {
    Message freed(5);
    const auto cancelled = Started(cluster->rank(1).Receive(0, kTag, absl::MakeSpan(freed)));
  }
  const Message message = RandomMessage(5, 3);
  const auto send = Started(cluster->rank(0).Send(1, kTag, message));
  const auto receive = Started(cluster->rank(1).Receive(0, kTag, absl::MakeSpan(got)));
  CHECK_OK(receive->Wait(Soon()));
  CHECK(got == message);
}

TEST_CASE("a large send that nobody receives can be destroyed, and its bytes freed") {
  CLUSTER_OF(2);
  const absl::Time before = absl::Now();
  {
    const Message message = RandomMessage(4 << 20, 3);
    const auto send = Started(cluster->rank(0).Send(1, kTag, message));
  }
  CHECK(absl::Now() - before < absl::Seconds(5));
}

TEST_CASE("abort fails what is under way and what comes after, and nobody else's") {
  CLUSTER_OF(3);
  Message got(5), other(5);
  const auto receive = Started(cluster->rank(1).Receive(0, kTag, absl::MakeSpan(got)));
  const auto others = Started(cluster->rank(2).Receive(0, kTag, absl::MakeSpan(other)));
  std::thread aborting([&] { cluster->rank(1).Abort("plan 8 took over"); });
  const absl::Status status = receive->Wait(Soon());
  aborting.join();
  CHECK(status == absl::CancelledError("plan 8 took over"));
  cluster->rank(1).Abort("again");
  const Message message = RandomMessage(5, 4);
  CHECK(Started(cluster->rank(1).Send(0, kTag, message))->Wait(Soon()) ==
        absl::CancelledError("plan 8 took over"));
  CHECK(Started(cluster->rank(1).Receive(2, kTag, absl::MakeSpan(got)))->Wait(Soon()) ==
        absl::CancelledError("plan 8 took over"));
  const auto send = Started(cluster->rank(0).Send(2, kTag, message));
  CHECK_OK(others->Wait(Soon()));
  CHECK(other == message);
}

TEST_CASE("a peer that cannot be, or a tag that does not fit, is refused") {
  CLUSTER_OF(2);
  Message got(1);
  for (const int peer : {-1, 0, 2}) {
    CAPTURE(peer);
    CHECK(absl::IsInvalidArgument(cluster->rank(0).Send(peer, kTag, got).status()));
    CHECK(absl::IsInvalidArgument(cluster->rank(0).Receive(peer, kTag, absl::MakeSpan(got)).status()));
  }
  const MessageTag long_sequence{MessageTag::Kind::kProbe, 0, 1 << 20};
  CHECK(absl::IsInvalidArgument(cluster->rank(0).Send(1, long_sequence, got).status()));
}

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

TEST_CASE("many threads may use a transport at once") {
  CLUSTER_OF(2);
  constexpr int kThreads = 4, kRounds = 200;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, rank, t] {
        Transport& transport = cluster->rank(rank);
        for (int i = 0; i < kRounds; ++i) {
          const size_t size = i % 50 == 7 ? 100000 : 64;
          const Message out = RandomMessage(size, t * 1000 + i);
          Message in(size);
          const MessageTag tag{MessageTag::Kind::kActivation, static_cast<uint16_t>(t),
                               static_cast<uint32_t>(i)};
          const auto receive = transport.Receive(1 - rank, tag, absl::MakeSpan(in));
          const auto send = transport.Send(1 - rank, tag, out);
          const bool good =
              send.ok() && receive.ok() && (*receive)->Wait(Soon()).ok() && (*send)->Wait(Soon()).ok();
          if (!good || in != out) ++wrong;
        }
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace medley
