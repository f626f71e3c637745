#include "runtime/base/waiting_signals.h"

#include <unistd.h>

#include <atomic>
#include <ctime>
#include <thread>
#include <vector>

#include "catch2/catch.hpp"

namespace medley {
namespace {

TEST_CASE("signals wait for the thread that takes them, also beside threads that were there before") {
  std::atomic<bool> stop = false;
  std::vector<std::thread> before;
  for (int i = 0; i < 3; ++i) {
    before.emplace_back([&] {
      while (!stop) std::this_thread::yield();
    });
  }
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGHUP);
  KeepSignalsWaiting(signals);
  const timespec patience = {.tv_sec = 20};
  for (const int signal : {SIGTERM, SIGHUP, SIGHUP, SIGTERM}) {
    // Of the threads of the process only those that were begun before do not block it.
    REQUIRE(kill(getpid(), signal) == 0);
    CHECK(sigtimedwait(&signals, nullptr, &patience) == signal);
  }
  // No second one waits.
  const timespec none = {};
  CHECK(sigtimedwait(&signals, nullptr, &none) == -1);
  stop = true;
  for (std::thread& thread : before) thread.join();
}

}  // namespace
}  // namespace medley
