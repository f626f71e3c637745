#include <signal.h>

#include <catch2/catch.hpp>

#include "comm/session/test_child.h"
#include "comm/session/test_sessions.h"
#include "runtime/base/clock.h"

namespace medley {
namespace {

// Rank 1 in a process of its own: tells its address, hears that of rank 0, connects, says so, and then
// computes without ever looking at its session.
TEST_CASE("rank 1", "[.]") {
  auto session = *Session::Listen(TestOptions(1, 2));
  TestChild::Send(TestChild::kOfChild, session->address());
  const absl::Status connected = session->Connect({TestChild::Receive(TestChild::kOfChild), ""}, Soon());
  TestChild::Send(TestChild::kOfChild, connected.ToString());
  for (volatile uint64_t work = 0;;) work = work + 1;
}

struct TwoProcesses {
  std::unique_ptr<TestChild> child = TestChild::Start("rank 1");
  GoneLog gone;
  std::unique_ptr<Session> session;

  explicit TwoProcesses(absl::Duration silence_limit) {
    REQUIRE(child != nullptr);
    Session::Options options = TestOptions(0, 2);
    options.silence_limit = silence_limit;
    session = *Session::Listen(options);
    gone.Attach(*session);
    TestChild::Send(child->descriptor(), session->address());
    const absl::Status status = session->Connect({"", TestChild::Receive(child->descriptor())}, Soon());
    INFO(status.ToString());
    REQUIRE(status.ok());
    REQUIRE(TestChild::Receive(child->descriptor()) == "OK");
  }
};

TEST_CASE("a process that is killed is gone long before it has been silent for too long") {
  TwoProcesses two(absl::Minutes(1));
  const absl::Time begin = Now();
  two.child->Signal(SIGKILL);
  const GoneLog::Entry gone = two.gone.Await(1);
  CHECK(Now() - begin < absl::Seconds(15));
  CHECK_FALSE(gone.left);
  CHECK_THAT(gone.why, Catch::Contains("connection"));
}

TEST_CASE("a process that computes for long is not silent, one that is stopped is") {
  TwoProcesses two(absl::Seconds(6));
  // Longer than the limit for silence, in which the other only computes; nothing tells of what does not
  // happen.
  absl::SleepFor(absl::Milliseconds(6500));
  CHECK(two.gone.Count() == 0);
  const absl::Time begin = Now();
  two.child->Signal(SIGSTOP);
  const GoneLog::Entry gone = two.gone.Await(1);
  CHECK(Now() - begin > absl::Milliseconds(900));
  CHECK_FALSE(gone.left);
  CHECK_THAT(gone.why, Catch::StartsWith("silent for "));
}

TEST_CASE("closing does not wait beyond its deadline for a process that is stopped") {
  TwoProcesses two(absl::Minutes(1));
  two.child->Signal(SIGSTOP);
  const absl::Time begin = Now();
  two.session->Close(begin + absl::Milliseconds(200));
  CHECK(Now() - begin < absl::Seconds(15));
}

}  // namespace
}  // namespace medley
