// Peers that go, memory that is registered, what is counted, and what a transport leaves behind.
#include <catch2/catch.hpp>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <utility>

#include "comm/conformance/peer_process.h"
#include "comm/ucx/test_pair.h"
#include "runtime/base/clock.h"

namespace medley {
namespace {

using Bytes = std::vector<std::byte>;
constexpr MessageTag kTag{MessageTag::Kind::kReduce, 1, 2};
constexpr UcxLinks kBoth[] = {UcxLinks::kTcp, UcxLinks::kSharedMemory};

std::unique_ptr<PeerProcess> StalledPeer(UcxLinks links) {
  auto peer = PeerProcess::Start(links, PeerProcess::Task::kStall);
  INFO(peer.status().ToString());
  REQUIRE(peer.ok());
  return *std::move(peer);
}

TEST_CASE(
    "a killed peer that is marked as gone fails its transfers, and the transport goes on and closes at "
    "once") {
  for (const UcxLinks links : kBoth) {
    CAPTURE(static_cast<int>(links));
    const auto peer = StalledPeer(links);
    UcxTransport& own = peer->transport();
    Bytes in(8), large(32 << 20), small(4000);
    const absl::Time begin = Now();
    {
      std::vector<std::unique_ptr<Transfer>> transfers;
      transfers.push_back(*own.Receive(1, kTag, absl::MakeSpan(in)));
      transfers.push_back(*own.Send(1, kTag, large));
      // More than a queue in shared memory holds, so that UCX still has some of them.
      for (int i = 0; i < 500; ++i) transfers.push_back(*own.Send(1, kTag, small));
      peer->Kill();
      own.MarkGone(1, "killed");
      for (size_t i = 0; i < transfers.size(); ++i) {
        CAPTURE(i);
        const absl::Status status = transfers[i]->Wait(Soon());
        if (i >= 2 && status.ok()) continue;  // it was out before
        CHECK(absl::IsUnavailable(status));
        CHECK_THAT(std::string(status.message()), Catch::Contains("rank 1"));
      }
    }
    CHECK(absl::IsUnavailable((*own.Send(1, kTag, small))->Wait(Soon())));
    CHECK(absl::IsUnavailable((*own.Receive(1, kTag, absl::MakeSpan(in)))->Wait(Soon())));
    const absl::Status closed = own.Close(Soon());
    CAPTURE(closed.ToString());
    CHECK(closed.ok());
    CHECK(Now() - begin < absl::Seconds(15));
  }
}

TEST_CASE("closing ends at its deadline where a killed peer was not marked, large sends included") {
  const auto peer = StalledPeer(UcxLinks::kSharedMemory);
  Bytes large(32 << 20), small(4000);
  const absl::Time begin = Now();
  {
    std::vector<std::unique_ptr<Transfer>> transfers;
    transfers.push_back(*peer->transport().Send(1, kTag, large));
    for (int i = 0; i < 500; ++i) transfers.push_back(*peer->transport().Send(1, kTag, small));
    peer->Kill();
    CHECK(absl::IsDeadlineExceeded(peer->transport().Close(Now() + absl::Milliseconds(200))));
    CHECK(absl::IsCancelled(transfers.front()->Wait(Soon())));
  }
  CHECK(Now() - begin < absl::Seconds(15));
}

TEST_CASE(
    "a large message whose sender is gone before it was fetched fails, and small ones are still there") {
  for (const UcxLinks links : kBoth) {
    CAPTURE(static_cast<int>(links));
    auto pair = ConnectedPair(links);
    REQUIRE(pair.ok());
    const Bytes large(8 << 20), small(50, std::byte{6});
    Bytes got(small.size()), lost(large.size());
    CHECK((*pair->b->Send(0, {MessageTag::Kind::kProbe, 0, 0}, small))->Wait(Soon()).ok());
    auto announced = pair->b->Send(0, kTag, large);
    CHECK((*pair->b->Send(0, {MessageTag::Kind::kProbe, 0, 1}, small))->Wait(Soon()).ok());
    CHECK((*pair->a->Receive(1, {MessageTag::Kind::kProbe, 0, 1}, absl::MakeSpan(got)))->Wait(Soon()).ok());
    pair->a->MarkGone(1, "marked");
    got.assign(got.size(), std::byte{});
    CHECK((*pair->a->Receive(1, {MessageTag::Kind::kProbe, 0, 0}, absl::MakeSpan(got)))->Wait(Soon()).ok());
    CHECK(got == small);
    const absl::Status status = (*pair->a->Receive(1, kTag, absl::MakeSpan(lost)))->Wait(Soon());
    CAPTURE(status.ToString());
    // Over shared memory the bytes can still be had, as the peer is in truth alive.
    CHECK((absl::IsUnavailable(status) || (links == UcxLinks::kSharedMemory && status.ok())));
  }
}

TEST_CASE("Done drives a transfer to its end") {
  for (const UcxLinks links : kBoth) {
    auto pair = ConnectedPair(links);
    REQUIRE(pair.ok());
    const Bytes bytes(1 << 20, std::byte{8});
    Bytes got(bytes.size());
    auto receive = pair->a->Receive(1, kTag, absl::MakeSpan(got));
    CHECK_FALSE((*receive)->Done());
    auto send = pair->b->Send(0, kTag, bytes);
    for (const absl::Time end = Soon(); Now() < end && !(*receive)->Done();) {
    }
    REQUIRE((*receive)->Done());
    CHECK((*receive)->Wait(absl::InfinitePast()).ok());
    CHECK(got == bytes);
    CHECK((*send)->Wait(Soon()).ok());
  }
}

TEST_CASE(
    "registered memory is sent from and received into, parts of it too, and may be let go at any time") {
  for (const UcxLinks links : kBoth) {
    auto pair = ConnectedPair(links);
    REQUIRE(pair.ok());
    Bytes out(3 << 20), in(3 << 20);
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(i * 7 + i / 4096);
    auto of_out = pair->a->Register(absl::MakeSpan(out));
    auto of_in = pair->b->Register(absl::MakeSpan(in));
    auto twice = pair->b->Register(absl::MakeSpan(in).first(100));
    REQUIRE((of_out.ok() && of_in.ok() && twice.ok()));
    // Whole, odd parts, up to the end, and beyond what is registered.
    for (const auto& [offset, size] :
         {std::pair<size_t, size_t>{0, out.size()}, {1, 999'999}, {2 << 20, 1 << 20}, {5, 0}}) {
      CAPTURE(offset, size);
      std::fill(in.begin(), in.end(), std::byte{0});
      auto send = pair->a->Send(1, kTag, absl::MakeConstSpan(out).subspan(offset, size));
      auto receive = pair->b->Receive(0, kTag, absl::MakeSpan(in).subspan(offset, size));
      if (offset == 2 << 20) *of_out = nullptr, *twice = nullptr;
      CHECK((*receive)->Wait(Soon()).ok());
      CHECK((*send)->Wait(Soon()).ok());
      CHECK(std::equal(in.begin() + offset, in.begin() + offset + size, out.begin() + offset));
    }
    CHECK(*pair->a->Register({}) == nullptr);
  }
}

TEST_CASE("memory that the UCX at hand does not reach is refused by name") {
  auto pair = ConnectedPair(UcxLinks::kTcp);
  REQUIRE(pair.ok());
  CHECK(pair->a->Reaches(MemoryType::kHost));
  Bytes bytes(8);
  for (const auto& [memory, name] :
       {std::pair{MemoryType::kCuda, "cuda"}, std::pair{MemoryType::kRocm, "rocm"}}) {
    if (pair->a->Reaches(memory)) continue;
    for (const absl::Status& status : {pair->a->Send(1, kTag, bytes, memory).status(),
                                       pair->a->Receive(1, kTag, absl::MakeSpan(bytes), memory).status(),
                                       pair->a->Register(absl::MakeSpan(bytes), memory).status()}) {
      CHECK(absl::IsInvalidArgument(status));
      CHECK_THAT(std::string(status.message()), Catch::Contains(std::string("memory is ") + name));
    }
  }
}

TEST_CASE("traffic is counted by peer and kind, where it went, and how long was waited") {
  for (const UcxLinks links : kBoth) {
    auto pair = ConnectedPair(links);
    REQUIRE(pair.ok());
    CHECK(pair->a->Traffic().empty());
    const Bytes bytes(1000), large(1 << 20);
    Bytes got(1000), much(1 << 20);
    for (int i = 0; i < 3; ++i) {
      auto send = pair->a->Send(1, {MessageTag::Kind::kProbe, 0, 0}, bytes);
      CHECK((*pair->b->Receive(0, {MessageTag::Kind::kProbe, 0, 0}, absl::MakeSpan(got)))->Wait(Soon()).ok());
      CHECK((*send)->Wait(Soon()).ok());
    }
    auto back = pair->b->Send(0, {MessageTag::Kind::kReduce, 0, 0}, large);
    CHECK((*pair->a->Receive(1, {MessageTag::Kind::kReduce, 0, 0}, absl::MakeSpan(much)))->Wait(Soon()).ok());
    CHECK((*back)->Wait(Soon()).ok());
    auto never = pair->a->Receive(1, {MessageTag::Kind::kScalars, 0, 0}, absl::MakeSpan(got));
    CHECK(absl::IsDeadlineExceeded((*never)->Wait(Now() + absl::Milliseconds(50))));
    const std::vector<PeerTraffic> traffic = pair->a->Traffic();
    REQUIRE(traffic.size() == 3);
    CHECK(pair->a->SharesMemory(1) == (links == UcxLinks::kSharedMemory));
    const PeerTraffic &reduce = traffic[0], &scalars = traffic[1], &probe = traffic[2];
    CHECK((reduce.kind == MessageTag::Kind::kReduce && probe.kind == MessageTag::Kind::kProbe));
    for (const PeerTraffic& one : traffic) {
      CHECK(one.peer == 1);
      CHECK(one.path == (links == UcxLinks::kTcp ? "tcp" : "shared memory"));
    }
    CHECK((probe.messages_sent == 3 && probe.bytes_sent == 3000 && probe.messages_received == 0));
    CHECK((reduce.messages_received == 1 && reduce.bytes_received == 1 << 20 && reduce.messages_sent == 0));
    CHECK((scalars.messages_received == 0 && scalars.wait_seconds > 0.04));
  }
}

size_t OpenDescriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

TEST_CASE("hundreds of attempts leave no descriptor behind") {
  const auto live = [](int attempt) {
    auto pair = ConnectedPair(kBoth[attempt % 2]);
    REQUIRE(pair.ok());
    const Bytes bytes(20'000, std::byte{5});
    Bytes got(bytes.size());
    {
      auto send = pair->a->Send(1, kTag, bytes);
      CHECK((*pair->b->Receive(0, kTag, absl::MakeSpan(got)))->Wait(Soon()).ok());
      CHECK((*send)->Wait(Soon()).ok());
    }
    CHECK(pair->a->Close(Soon()).ok());
    CHECK(pair->b->Close(Soon()).ok());
  };
  for (int attempt = 0; attempt < 4; ++attempt) live(attempt);  // what UCX opens once
  const size_t before = OpenDescriptors();
  for (int attempt = 0; attempt < 300; ++attempt) live(attempt);
  CHECK(OpenDescriptors() == before);
}

}  // namespace
}  // namespace medley
