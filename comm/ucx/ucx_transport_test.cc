#include "comm/ucx/ucx_transport.h"

#include <catch2/catch.hpp>
#include <ctime>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/ucx/ucx_address.h"
#include "runtime/base/clock.h"

namespace medley {
namespace {

using Links = UcxTransport::Links;

absl::Time Soon() { return Now() + absl::Seconds(20); }

std::unique_ptr<UcxTransport> Create(int rank, int size, Links links) {
  auto made = UcxTransport::Create({.attempt = 5, .rank = rank, .size = size, .links = links});
  INFO(made.status().ToString());
  REQUIRE(made.ok());
  return *std::move(made);
}

struct Pair {
  std::unique_ptr<UcxTransport> a, b;
};

Pair Connected(Links links) {
  Pair pair{Create(0, 2, links), Create(1, 2, links)};
  const std::vector<std::string> addresses = {pair.a->address(), pair.b->address()};
  CHECK(pair.a->Connect(addresses, Soon()).ok());
  CHECK(pair.b->Connect(addresses, Soon()).ok());
  return pair;
}

TEST_CASE("options that cannot be are refused by name") {
  CHECK(UcxTransport::Create({.rank = 0, .size = 0}).status().message() == "size is 0, not in [1, 65536]");
  CHECK(UcxTransport::Create({.rank = 0, .size = 65537}).status().message() ==
        "size is 65537, not in [1, 65536]");
  CHECK(UcxTransport::Create({.rank = 2, .size = 2}).status().message() == "rank is 2, not in [0, 2)");
  CHECK(UcxTransport::Create({.rank = -1, .size = 2}).status().message() == "rank is -1, not in [0, 2)");
  const auto no_device = UcxTransport::Create({.links = Links::kTcp, .network_devices = "nowhere7"});
  CHECK_FALSE(no_device.ok());
  CHECK_THAT(std::string(no_device.status().message()), Catch::Contains("nowhere7"));
}

TEST_CASE("addresses of another rank, attempt or shape are refused by rank, and the transport survives") {
  const auto a = Create(0, 2, Links::kAutomatic), b = Create(1, 2, Links::kAutomatic);
  const auto refused = [&](const std::vector<std::string>& addresses) {
    const absl::Status status = a->Connect(addresses, Soon());
    CHECK(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  CHECK(refused({a->address()}) == "1 addresses for 2 ranks");
  CHECK_THAT(refused({"", "nonsense"}), Catch::StartsWith("rank 1: "));
  CHECK_THAT(refused({"", a->address()}), Catch::Contains("is of rank 0 in attempt 5, not of rank 1"));
  auto late = UcxTransport::Create({.attempt = 4, .rank = 1, .size = 2});
  REQUIRE(late.ok());
  CHECK_THAT(refused({"", (*late)->address()}), Catch::Contains("is of rank 1 in attempt 4"));
  CHECK(a->Connect({"", b->address()}, Soon()).ok());
  CHECK(absl::IsFailedPrecondition(a->Connect({"", b->address()}, Soon())));
}

TEST_CASE("nothing is sent before the transport is connected") {
  const auto a = Create(0, 2, Links::kTcp);
  std::vector<std::byte> bytes(3);
  CHECK(absl::IsFailedPrecondition(a->Send(1, {}, bytes).status()));
  CHECK(absl::IsFailedPrecondition(a->Receive(1, {}, absl::MakeSpan(bytes)).status()));
}

TEST_CASE("a rank of another host is refused where links are shared memory, and reached over TCP else") {
  const Links links = GENERATE(Links::kSharedMemory, Links::kAutomatic);
  auto a = Create(0, 2, links), b = Create(1, 2, links);
  std::vector<std::string> of_a, of_b;
  for (const auto& own : {a->address(), b->address()}) {
    UcxAddress address = *DecodeAddress(own);
    of_a.push_back(EncodeAddress(address));
    address.host = "elsewhere";
    of_b.push_back(EncodeAddress(address));
  }
  if (links == Links::kSharedMemory) {
    const absl::Status status = a->Connect(of_b, Soon());
    CHECK(absl::IsFailedPrecondition(status));
    CHECK_THAT(std::string(status.message()), Catch::Contains("rank 1 is on another host"));
    return;
  }
  REQUIRE(a->Connect(of_b, Soon()).ok());
  REQUIRE(b->Connect(of_b, Soon()).ok());
  std::vector<std::byte> bytes(1 << 20, std::byte{7}), got(1 << 20);
  {
    auto send = a->Send(1, {}, bytes);
    auto receive = b->Receive(0, {}, absl::MakeSpan(got));
    REQUIRE((send.ok() && receive.ok()));
    CHECK((*receive)->Wait(Soon()).ok());
    CHECK((*send)->Wait(Soon()).ok());
  }
  CHECK(got == bytes);
  // Only over TCP is it noticed that a peer has gone.
  auto receive = a->Receive(1, {}, absl::MakeSpan(got));
  b.reset();
  CHECK(absl::IsUnavailable((*receive)->Wait(Soon())));
}

TEST_CASE("a rank with links of TCP shares memory with none, and both ends know it") {
  const auto a = Create(0, 2, Links::kTcp), b = Create(1, 2, Links::kAutomatic);
  const std::vector<std::string> addresses = {a->address(), b->address()};
  REQUIRE(a->Connect(addresses, Soon()).ok());
  REQUIRE(b->Connect(addresses, Soon()).ok());
  REQUIRE_FALSE(a->SharesMemory(1));
  REQUIRE_FALSE(b->SharesMemory(0));
  std::vector<std::byte> bytes(1 << 20, std::byte{7}), got(1 << 20);
  {
    auto send = a->Send(1, {}, bytes);
    auto receive = b->Receive(0, {}, absl::MakeSpan(got));
    REQUIRE((send.ok() && receive.ok()));
    CHECK((*receive)->Wait(Soon()).ok());
    CHECK((*send)->Wait(Soon()).ok());
  }
  CHECK((got == bytes));
  const absl::Status refused = Create(1, 2, Links::kSharedMemory)->Connect(addresses, Soon());
  CHECK(absl::IsFailedPrecondition(refused));
  CHECK(refused.message() == "links are shared memory, and rank 0 has links of TCP alone");
}

TEST_CASE("closing ends what is received, keeps what was sent, and does not wait for the other") {
  const Links links = GENERATE(Links::kTcp, Links::kSharedMemory);
  const Pair pair = Connected(links);
  std::vector<std::byte> bytes(100, std::byte{9}), got(100), never(1);
  auto receive = pair.a->Receive(1, {}, absl::MakeSpan(never));
  { auto send = pair.a->Send(1, {}, bytes); }
  CHECK(pair.a->Close(Soon()).ok());
  CHECK(absl::IsCancelled((*receive)->Wait(Soon())));
  CHECK(absl::IsCancelled((*pair.a->Send(1, {}, bytes))->Wait(Soon())));
  CHECK(absl::IsCancelled(pair.a->Close(Soon())));
  auto last = pair.b->Receive(0, {}, absl::MakeSpan(got));
  CHECK((*last)->Wait(Soon()).ok());
  CHECK(got == bytes);
  CHECK(pair.b->Close(Soon()).ok());
}

TEST_CASE("closing says at the deadline who did not take all") {
  const Links links = GENERATE(Links::kTcp, Links::kSharedMemory);
  const Pair pair = Connected(links);
  std::vector<std::byte> bytes(8 << 20);
  auto send = pair.a->Send(1, {}, bytes);
  const absl::Status status = pair.a->Close(Now() + absl::Milliseconds(30));
  CHECK(absl::IsDeadlineExceeded(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains("rank 1"));
  CHECK(absl::IsCancelled((*send)->Wait(Soon())));
}

TEST_CASE("waiting takes hardly any processor time") {
  const Links links = GENERATE(Links::kTcp, Links::kSharedMemory);
  const Pair pair = Connected(links);
  std::vector<std::byte> got(1);
  auto receive = pair.a->Receive(1, {}, absl::MakeSpan(got));
  const std::clock_t before = std::clock();  // of all threads
  CHECK(absl::IsDeadlineExceeded((*receive)->Wait(Now() + absl::Milliseconds(400))));
  CHECK(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC < 0.04);
}

}  // namespace
}  // namespace medley
