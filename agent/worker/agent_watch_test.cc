#include "agent/worker/agent_watch.h"

#include <signal.h>
#include <sys/socket.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "runtime/base/clock.h"
#include "runtime/base/stacks/thread_stacks.h"

namespace medley {
namespace {

const absl::Time kStart = absl::UnixEpoch() + absl::Hours(1);

// Looks at `silence` as often as it wants from `now` on; returns the moment at which it is over, or `end`.
absl::Time LookUntil(SilenceLimit& silence, absl::Time now, absl::Time end) {
  for (; now < end; now += silence.look_time()) {
    if (silence.IsOver(now)) return now;
  }
  return end;
}

TEST_CASE("a silence is over after the limit, at the next look, and well within two limits") {
  SilenceLimit silence(absl::Seconds(8), kStart);
  const absl::Time over = LookUntil(silence, kStart, kStart + absl::Hours(1));
  CHECK(over > kStart + absl::Seconds(8));
  CHECK(over <= kStart + absl::Seconds(10));
}

TEST_CASE("who is heard of often enough is never silent for too long") {
  SilenceLimit silence(absl::Seconds(8), kStart);
  for (int second = 0; second < 1000; ++second) {
    if (second % 7 == 0) silence.Heard(kStart + absl::Seconds(second));
    REQUIRE_FALSE(silence.IsOver(kStart + absl::Seconds(second)));
  }
}

TEST_CASE("a process that was stopped waits for one more limit before it believes in the silence") {
  SilenceLimit silence(absl::Seconds(8), kStart);
  CHECK_FALSE(silence.IsOver(kStart + absl::Seconds(1)));
  const absl::Time continued = kStart + absl::Hours(3);
  CHECK_FALSE(silence.IsOver(continued));
  SECTION("and is glad when it hears something") {
    silence.Heard(continued + absl::Seconds(7));
    CHECK(LookUntil(silence, continued, continued + absl::Seconds(14)) == continued + absl::Seconds(14));
  }
  SECTION("and ends when it does not") {
    const absl::Time over = LookUntil(silence, continued, continued + absl::Hours(1));
    CHECK(over > continued + absl::Seconds(8));
    CHECK(over <= continued + absl::Seconds(10));
  }
}

// Whether a signal of those that threads are asked by waits for this thread, which blocks it.
bool IsAsked() {
  sigset_t pending;
  sigpending(&pending);
  for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) {
    if (sigismember(&pending, signal) == 1) return true;
  }
  return false;
}

TEST_CASE("pings are answered while the threads are asked what they do, however long they take") {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  // These live as long as the process.
  static auto& agent = *new MessageChannel(ends[0]);
  static auto& watch = *new AgentWatch(*new MessageChannel(ends[1]));
  (void)watch;
  std::atomic<bool> is_deaf = false, is_asked = false, may_end = false;
  std::thread deaf([&] {
    sigset_t signals;
    sigfillset(&signals);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    is_deaf = true;
    while (!IsAsked()) std::this_thread::yield();
    is_asked = true;
    may_end.wait(false);
  });
  while (!is_deaf) std::this_thread::yield();
  // Who asks next has to wait for this one.
  std::thread asks([] { (void)DescribeThreadStacks(absl::Hours(1)); });
  while (!is_asked) std::this_thread::yield();

  v1::WorkerCommand describe, ping;
  describe.mutable_describe_stacks();
  ping.mutable_ping();
  CHECK(agent.Send(describe).ok());
  CHECK(agent.Send(ping).ok());
  v1::WorkerReply reply;
  CHECK(agent.Receive(reply, Now() + absl::Minutes(1)).ok());
  CHECK(reply.has_pong());
  may_end = true;
  may_end.notify_all();
  deaf.join();
  asks.join();
  CHECK(agent.Receive(reply, Now() + absl::Minutes(1)).ok());
  CHECK(reply.stacks().find("thread ") == 0);
}

}  // namespace
}  // namespace medley
