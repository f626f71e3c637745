#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "comm/communicator/communicator.h"
#include "comm/session/test_child.h"
#include "runtime/base/clock.h"

namespace medley {
namespace {

using Links = UcxTransport::Links;

absl::Time Soon() { return Now() + absl::Seconds(20); }

Communicator::Options OptionsOf(int rank, int links) {
  return {.attempt = 5,
          .rank = rank,
          .size = 2,
          .secret = "sixteen bytes or more",
          .links = static_cast<Links>(links),
          .network_devices = "lo"};
}

// Rank 1 in a process of its own: is told the links and the address of rank 0, tells its own, connects, sends
// one message, and then does nothing more.
TEST_CASE("rank 1", "[.]") {
  int links = 0;
  REQUIRE(absl::SimpleAtoi(TestChild::Receive(TestChild::kOfChild), &links));
  auto communicator = *Communicator::Create(OptionsOf(1, links));
  TestChild::Send(TestChild::kOfChild, communicator->address());
  const std::string other = TestChild::Receive(TestChild::kOfChild);
  absl::Status status = communicator->Connect({other, communicator->address()}, Soon());
  std::vector<std::byte> message(100, std::byte{7});
  if (status.ok()) status = (*communicator->transport().Send(0, {}, message))->Wait(Soon());
  TestChild::Send(TestChild::kOfChild, status.ToString());
  while (true) pause();
}

struct TwoProcesses {
  std::unique_ptr<TestChild> child = TestChild::Start("rank 1");
  std::unique_ptr<Communicator> own;

  explicit TwoProcesses(Links links) {
    REQUIRE(child != nullptr);
    TestChild::Send(child->descriptor(), std::to_string(static_cast<int>(links)));
    own = *Communicator::Create(OptionsOf(0, static_cast<int>(links)));
    const std::string other = TestChild::Receive(child->descriptor());
    TestChild::Send(child->descriptor(), own->address());
    const absl::Status status = own->Connect({own->address(), other}, Soon());
    INFO(status.ToString());
    REQUIRE(status.ok());
  }
};

TEST_CASE(
    "what needs a process that was killed or stopped fails before its own deadline, by name, over any link") {
  const Links links = GENERATE(Links::kTcp, Links::kSharedMemory);
  const int signal = GENERATE(SIGKILL, SIGSTOP);
  CAPTURE(static_cast<int>(links), signal);
  TwoProcesses two(links);
  Transport& transport = two.own->transport();
  REQUIRE(TestChild::Receive(two.child->descriptor()) == "OK");  // it has sent its message
  std::vector<std::byte> first(100), second(100), large(32 << 20);
  {
    auto arrived = transport.Receive(1, {}, absl::MakeSpan(first));
    REQUIRE(arrived.ok());
    REQUIRE((*arrived)->Wait(Soon()).ok());
    auto receive = transport.Receive(1, {}, absl::MakeSpan(second));
    auto send = transport.Send(1, {}, large);
    REQUIRE((receive.ok() && send.ok()));
    const absl::Time begin = Now();
    two.child->Signal(signal);
    for (const auto* transfer : {&*receive, &*send}) {
      const absl::Status status = (*transfer)->Wait(Soon());
      CAPTURE(status.ToString());
      CHECK(absl::IsUnavailable(status));
      CHECK_THAT(std::string(status.message()), Catch::Contains("rank 1"));
    }
    CHECK(Now() - begin < absl::Seconds(15));
    for (const bool sends : {true, false}) {
      auto later = sends ? transport.Send(1, {}, large) : transport.Receive(1, {}, absl::MakeSpan(second));
      REQUIRE(later.ok());
      CHECK(absl::IsUnavailable((*later)->Wait(Soon())));
    }
  }
  CHECK(first == std::vector<std::byte>(100, std::byte{7}));
  const absl::Time begin = Now();
  (void)two.own->Close(begin + absl::Seconds(1));
  CHECK(Now() - begin < absl::Seconds(15));
}

}  // namespace
}  // namespace medley
