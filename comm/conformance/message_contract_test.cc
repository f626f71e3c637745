#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "comm/conformance/contract_test.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

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

TEST_CASE("a peer that cannot be, or a tag that does not fit, is refused") {
  CLUSTER_OF(2);
  Message got(1);
  for (const int peer : {-1, 0, 2}) {
    CAPTURE(peer);
    CHECK(absl::IsInvalidArgument(cluster->rank(0).Send(peer, kTag, got).status()));
    CHECK(absl::IsInvalidArgument(cluster->rank(0).Receive(peer, kTag, absl::MakeSpan(got)).status()));
  }
  const MessageTag long_sequence{MessageTag::Kind::kProbe, 0, 1 << 30};
  CHECK(absl::IsInvalidArgument(cluster->rank(0).Send(1, long_sequence, got).status()));
}

}  // namespace
}  // namespace medley
