#include <catch2/catch.hpp>
#include <random>
#include <utility>
#include <vector>

#include "comm/conformance/peer_process.h"
#include "comm/probe/measure_link.h"
#include "runtime/base/clock.h"

namespace medley {
namespace {

using Links = UcxTransport::Links;
using Task = PeerProcess::Task;

absl::Time Soon() { return Now() + absl::Seconds(20); }

std::unique_ptr<PeerProcess> Start(Links links, Task task) {
  auto peer = PeerProcess::Start(links, task);
  INFO(peer.status().ToString());
  REQUIRE(peer.ok());
  return *std::move(peer);
}

std::vector<std::byte> RandomBytes(size_t size) {
  std::mt19937_64 random(size);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST_CASE("another process gives back every message, and both close in order") {
  const Links links = GENERATE(Links::kAutomatic, Links::kTcp, Links::kSharedMemory);
  CAPTURE(static_cast<int>(links));
  const auto peer = Start(links, Task::kEcho);
  for (const size_t size :
       {size_t{1}, size_t{8}, size_t{5000}, size_t{1} << 20, size_t{16} << 20, size_t{0}}) {
    CAPTURE(size);
    const std::vector<std::byte> out = RandomBytes(size);
    std::vector<std::byte> in(size);
    const uint64_t announced = size;
    const MessageTag announce{MessageTag::Kind::kProbe, 0, 0}, content{MessageTag::Kind::kProbe, 0, 1};
    auto first = peer->transport().Send(1, announce, {reinterpret_cast<const std::byte*>(&announced), 8});
    auto send = peer->transport().Send(1, content, out);
    auto receive = peer->transport().Receive(1, content, absl::MakeSpan(in));
    REQUIRE((first.ok() && send.ok() && receive.ok()));
    const absl::Status status = (*receive)->Wait(Soon());
    INFO(status.ToString());
    REQUIRE(status.ok());
    CHECK((*send)->Wait(Soon()).ok());
    CHECK((*first)->Wait(Soon()).ok());
    CHECK(in == out);
  }
  const absl::Status closed = peer->transport().Close(Soon());
  INFO(closed.ToString());
  CHECK(closed.ok());
  CHECK(peer->AwaitExit() == 0);
}

TEST_CASE("a link to another process is measured in half a second") {
  const Links links = GENERATE(Links::kTcp, Links::kSharedMemory);
  const auto peer = Start(links, Task::kFollow);
  const absl::Time begin = Now();
  const auto measured = MeasureLink(peer->transport(), 1, ProbeRole::kLeader, Soon());
  INFO(measured.status().ToString());
  REQUIRE(measured.ok());
  CHECK(Now() - begin < absl::Seconds(15));  // half a second on an idle machine
  CHECK(measured->latency_seconds > 0);
  CHECK(measured->bandwidth_bytes_per_second > 1e6);
  CHECK(peer->transport().Close(Soon()).ok());
  CHECK(peer->AwaitExit() == 0);
}

TEST_CASE("a killed peer fails what is under way over TCP, by name") {
  const auto peer = Start(Links::kTcp, Task::kStall);
  std::vector<std::byte> in(8), out(32 << 20);
  auto receive = peer->transport().Receive(1, {}, absl::MakeSpan(in));
  auto send = peer->transport().Send(1, {}, out);
  REQUIRE((receive.ok() && send.ok()));
  peer->Kill();
  for (const auto* transfer : {&*receive, &*send}) {
    const absl::Status status = (*transfer)->Wait(Soon());
    CAPTURE(status.ToString());
    CHECK(absl::IsUnavailable(status));
    CHECK_THAT(std::string(status.message()), Catch::Contains("rank 1"));
  }
  auto later = peer->transport().Send(1, {}, out);
  REQUIRE(later.ok());
  CHECK(absl::IsUnavailable((*later)->Wait(Soon())));
  // Closing has nobody to wait for.
  CHECK(peer->transport().Close(Soon()).ok());
}

TEST_CASE("a killed peer over shared memory ends at the deadline, and nothing waits for it after") {
  const auto peer = Start(Links::kSharedMemory, Task::kStall);
  std::vector<std::byte> in(8), out(32 << 20);
  const absl::Time begin = Now();
  {
    auto receive = peer->transport().Receive(1, {}, absl::MakeSpan(in));
    auto send = peer->transport().Send(1, {}, out);
    REQUIRE((receive.ok() && send.ok()));
    peer->Kill();
    CHECK(absl::IsDeadlineExceeded((*receive)->Wait(Now() + absl::Milliseconds(50))));
    CHECK(absl::IsDeadlineExceeded((*send)->Wait(Now() + absl::Milliseconds(50))));
  }
  CHECK(absl::IsCancelled(peer->transport().Close(Now() + absl::Milliseconds(50))));
  CHECK(Now() - begin < absl::Seconds(15));
}

}  // namespace
}  // namespace medley
