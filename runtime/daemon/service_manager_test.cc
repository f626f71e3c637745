#include "runtime/daemon/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"

namespace medley {
namespace {

// The service manager's end of the protocol: a socket that $NOTIFY_SOCKET names.
class Manager {
 public:
  Manager() : socket_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    // Without a path the kernel chooses a name, which needs no directory: a test's may be longer than an address can hold.
    sockaddr_un address = {.sun_family = AF_UNIX};
    REQUIRE(bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(sa_family_t)) == 0);
    socklen_t size = sizeof(address);
    REQUIRE(getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    // The name starts with a zero byte, which the variable writes as "@".
    const std::string name =
        "@" + std::string(address.sun_path + 1, size - offsetof(sockaddr_un, sun_path) - 1);
    // On silence, for a test that would else hang.
    const timeval patience = {.tv_sec = 60};
    REQUIRE(setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0);
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }
  ~Manager() {
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    close(socket_);
  }

  void Watch(int microseconds) {
    setenv("WATCHDOG_USEC", std::to_string(microseconds).c_str(), 1);
    setenv("WATCHDOG_PID", std::to_string(getpid()).c_str(), 1);
  }
  // The next message; empty: none came.
  std::string Hear() const {
    char text[512];
    const ssize_t size = recv(socket_, text, sizeof(text), 0);
    return size < 0 ? "" : std::string(text, static_cast<size_t>(size));
  }
  // The next one that is not of the watchdog.
  std::string HearNews() const {
    std::string heard = Hear();
    while (heard == "WATCHDOG=1") heard = Hear();
    return heard;
  }

 private:
  const int socket_;
};

// WaitForStop in a thread of its own; signals are for the whole process, and all threads keep them for it.
class Waiter {
 public:
  explicit Waiter(DaemonWatch watch) {
    BlockDaemonSignals();
    thread_ = std::thread([this, watch = std::move(watch)] { signal_ = WaitForStop(watch); });
  }
  int Join() {
    thread_.join();
    return signal_;
  }

 private:
  std::thread thread_;
  int signal_ = 0;
};

TEST_CASE("the service manager hears when a daemon is ready, and that it stops") {
  const Manager manager;
  TellReady("listens at 127.0.0.1:7070");
  CHECK(manager.Hear() == "READY=1\nSTATUS=listens at 127.0.0.1:7070");
  for (const int signal : {SIGTERM, SIGINT}) {
    Waiter waiter({});
    kill(getpid(), signal);
    CHECK(manager.Hear() == "STOPPING=1");
    CHECK(waiter.Join() == signal);
  }
}

TEST_CASE("without a service manager a daemon waits all the same") {
  TellReady("nobody hears");
  Waiter waiter({});
  kill(getpid(), SIGTERM);
  CHECK(waiter.Join() == SIGTERM);
}

TEST_CASE("the watchdog hears of a daemon again and again, but not while it hangs") {
  Manager manager;
  manager.Watch(30'000);
  std::atomic<int> asked = 0;
  absl::Notification hangs, goes_on;
  Waiter waiter({.is_well = [&] {
    if (++asked != 4) return;
    hangs.Notify();
    goes_on.WaitForNotification();
  }});
  for (int i = 0; i < 3; ++i) CHECK(manager.Hear() == "WATCHDOG=1");
  hangs.WaitForNotification();
  // What comes next comes after it goes on.
  TellReady("from another thread");
  CHECK(manager.Hear() == "READY=1\nSTATUS=from another thread");
  goes_on.Notify();
  CHECK(manager.Hear() == "WATCHDOG=1");
  kill(getpid(), SIGTERM);
  CHECK(manager.HearNews() == "STOPPING=1");
  CHECK(waiter.Join() == SIGTERM);
}

TEST_CASE("at SIGHUP a daemon reads its configuration again, and says so") {
  Manager manager;
  int reloads = 0;
  Waiter waiter({.reload = [&] { ++reloads; }});
  kill(getpid(), SIGHUP);
  CHECK_THAT(manager.Hear(), Catch::StartsWith("RELOADING=1\nMONOTONIC_USEC="));
  CHECK(manager.Hear() == "READY=1");
  kill(getpid(), SIGTERM);
  CHECK(manager.Hear() == "STOPPING=1");
  CHECK(waiter.Join() == SIGTERM);
  CHECK(reloads == 1);
}

TEST_CASE("a daemon without anything to read again ignores SIGHUP") {
  const Manager manager;
  Waiter waiter({});
  kill(getpid(), SIGHUP);
  kill(getpid(), SIGTERM);
  CHECK(manager.Hear() == "STOPPING=1");
  CHECK(waiter.Join() == SIGTERM);
}

}  // namespace
}  // namespace medley
