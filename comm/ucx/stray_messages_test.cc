#include <catch2/catch.hpp>
#include <fstream>
#include <utility>

#include "comm/ucx/test_pair.h"
#include "comm/ucx/ucx_address.h"
#include "runtime/base/clock.h"

namespace medley {
namespace {

using Bytes = std::vector<std::byte>;

// Rank 1 of another attempt (or with another secret), connected to `target` whose address is passed off as
// that attempt's: what a worker that was left behind would send.
std::unique_ptr<UcxTransport> Stranger(const UcxTransport& target, UcxLinks links, uint64_t attempt,
                                       const std::string& secret) {
  auto made =
      UcxTransport::Create({.attempt = attempt, .rank = 1, .size = 2, .links = links, .secret = secret});
  REQUIRE(made.ok());
  UcxAddress address = *DecodeAddress(target.address());
  address.attempt = attempt;
  const absl::Status connected = (*made)->Connect({EncodeAddress(address), ""}, Soon());
  INFO(connected.ToString());
  REQUIRE(connected.ok());
  return *std::move(made);
}

bool AwaitDropped(const UcxTransport& transport, uint64_t count) {
  const absl::Time end = Soon();
  while (transport.DroppedMessages() < count && Now() < end) absl::SleepFor(absl::Milliseconds(1));
  return transport.DroppedMessages() == count;
}

size_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  size_t pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * 4096;
}

constexpr MessageTag kTag{MessageTag::Kind::kGradient, 3, 4};

TEST_CASE("messages of another attempt or secret are dropped and counted, and the right ones come through") {
  for (const UcxLinks links : {UcxLinks::kTcp, UcxLinks::kSharedMemory}) {
    for (const auto& [attempt, secret] : {std::pair<uint64_t, std::string>{4, "right"}, {5, "wrong"}}) {
      CAPTURE(static_cast<int>(links), attempt, secret);
      auto pair = ConnectedPair(links, "right");
      REQUIRE(pair.ok());
      const auto stranger = Stranger(*pair->a, links, attempt, secret);
      uint64_t expected = 0;
      // Short ones, in pieces, and by rendezvous, which a sender waits for.
      for (const size_t size : {size_t{0}, size_t{8}, size_t{3000}, size_t{100'000}, size_t{4} << 20}) {
        CAPTURE(size);
        const Bytes wrong(size, std::byte{1}), right(size, std::byte{2});
        Bytes got(size);
        auto early = stranger->Send(0, kTag, wrong);
        auto receive = pair->a->Receive(1, kTag, absl::MakeSpan(got));
        auto late = stranger->Send(0, kTag, wrong);
        auto send = pair->b->Send(0, kTag, right);
        REQUIRE((early.ok() && receive.ok() && late.ok() && send.ok()));
        CHECK((*receive)->Wait(Soon()).ok());
        CHECK((*send)->Wait(Soon()).ok());
        CHECK(got == right);
        expected += 2;
        CHECK(AwaitDropped(*pair->a, expected));
        CHECK((*early)->Wait(Soon()).ok());  // a stranger is not kept waiting either
        CHECK((*late)->Wait(Soon()).ok());
      }
      CHECK(pair->b->DroppedMessages() == 0);
    }
  }
}

TEST_CASE("messages that come before their receive are not strays") {
  auto pair = ConnectedPair(UcxLinks::kTcp, "secret");
  REQUIRE(pair.ok());
  const auto stranger = Stranger(*pair->a, UcxLinks::kTcp, 4, "secret");
  const Bytes small(100, std::byte{3}), large(1 << 20, std::byte{4});
  auto first = pair->b->Send(0, kTag, small);
  auto second = pair->b->Send(0, kTag, large);
  CHECK((*first)->Wait(Soon()).ok());
  auto stray = stranger->Send(0, kTag, small);
  CHECK(AwaitDropped(*pair->a, 1));
  Bytes got(small.size()), more(large.size());
  CHECK((*pair->a->Receive(1, kTag, absl::MakeSpan(got)))->Wait(Soon()).ok());
  CHECK((*pair->a->Receive(1, kTag, absl::MakeSpan(more)))->Wait(Soon()).ok());
  CHECK(got == small);
  CHECK(more == large);
  CHECK((*second)->Wait(Soon()).ok());
  CHECK(pair->a->DroppedMessages() == 1);
}

TEST_CASE("strays do not fill the memory") {
  auto pair = ConnectedPair(UcxLinks::kSharedMemory);
  REQUIRE(pair.ok());
  const auto stranger = Stranger(*pair->a, UcxLinks::kSharedMemory, 4, "");
  const Bytes bytes(4000);
  constexpr int kBatches = 16, kBatch = 1000;  // 64 MB in all
  size_t after_some = 0;
  for (int batch = 0; batch < kBatches; ++batch) {
    for (int i = 0; i < kBatch; ++i) CHECK((*stranger->Send(0, kTag, bytes))->Wait(Soon()).ok());
    REQUIRE(AwaitDropped(*pair->a, uint64_t{kBatch} * (batch + 1)));
    if (batch == 3) after_some = ResidentBytes();
  }
  CHECK(ResidentBytes() < after_some + (8 << 20));
}

}  // namespace
}  // namespace medley
