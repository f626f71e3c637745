#include "runtime/base/short_turns.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdio>
#include <thread>

namespace medley {
namespace {

// Of the calling thread, in nanoseconds; 0: the kernel does not say.
uint64_t TurnOfThread() {
  std::array<uint64_t, 6>
      attributes{};  // of sched_attr the size and policy, flags, nice and priority, runtime, deadline, period
  if (syscall(SYS_sched_getattr, 0, attributes.data(), sizeof(attributes), 0) != 0) return 0;
  return attributes[3];
}

bool KernelHasTurns() {
  utsname name{};
  int major = 0, minor = 0;
  if (uname(&name) != 0 || std::sscanf(name.release, "%d.%d", &major, &minor) != 2) return false;
  return major > 6 || (major == 6 && minor >= 12);
}

TEST_CASE("a thread has short turns, at its own policy and niceness, and others are as they were") {
  const uint64_t before = TurnOfThread();
  std::thread([] {
    setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), 3);
    if (!AskForShortTurns())
      WARN("refused here");
    else if (KernelHasTurns() && TurnOfThread() != 0)
      CHECK(TurnOfThread() == 100'000);
    CHECK(sched_getscheduler(0) == SCHED_OTHER);
    CHECK(getpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid))) == 3);
  }).join();
  CHECK(TurnOfThread() == before);
}

TEST_CASE("a thread of another policy keeps it") {
  std::thread([] {
    const sched_param parameters{};
    REQUIRE(sched_setscheduler(0, SCHED_BATCH, &parameters) == 0);
    CHECK_FALSE(AskForShortTurns());
    CHECK(sched_getscheduler(0) == SCHED_BATCH);
  }).join();
}

}  // namespace
}  // namespace medley
