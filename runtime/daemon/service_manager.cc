#include "runtime/daemon/service_manager.h"

#include <systemd/sd-daemon.h>

#include <ctime>

#include "runtime/base/waiting_signals.h"

namespace medley {
namespace {

// The watchdog hears of the daemon so many times in its interval.
constexpr uint64_t kSignsInInterval = 3;

sigset_t DaemonSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  return signals;
}

uint64_t MonotonicMicroseconds() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000 + static_cast<uint64_t>(now.tv_nsec) / 1000;
}

void Reload(const DaemonWatch& watch) {
  if (!watch.reload) return;
  (void)sd_notify(0, ("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(MonotonicMicroseconds())).c_str());
  watch.reload();
  (void)sd_notify(0, "READY=1");
}

}  // namespace

void BlockDaemonSignals() { KeepSignalsWaiting(DaemonSignals()); }

void TellReady(const std::string& status) { (void)sd_notify(0, ("READY=1\nSTATUS=" + status).c_str()); }

bool IsAskedAgain(int milliseconds) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM}) sigaddset(&signals, signal);
  const timespec pause = {.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1'000'000L};
  return sigtimedwait(&signals, nullptr, &pause) > 0;
}

int WaitForStop(const DaemonWatch& watch) {
  const sigset_t signals = DaemonSignals();
  uint64_t interval_microseconds = 0;
  const bool is_watched = sd_watchdog_enabled(0, &interval_microseconds) > 0;
  const uint64_t pause_microseconds = interval_microseconds / kSignsInInterval;
  const timespec pause = {.tv_sec = static_cast<time_t>(pause_microseconds / 1'000'000),
                          .tv_nsec = static_cast<long>(pause_microseconds % 1'000'000 * 1000)};
  while (true) {
    // It fails at the end of the pause, and when the process was stopped and goes on.
    const int signal = is_watched ? sigtimedwait(&signals, nullptr, &pause) : sigwaitinfo(&signals, nullptr);
    if (signal == SIGINT || signal == SIGTERM) {
      (void)sd_notify(0, "STOPPING=1");
      return signal;
    }
    if (signal == SIGHUP) Reload(watch);
    if (!is_watched) continue;
    if (watch.is_well) watch.is_well();
    (void)sd_notify(0, "WATCHDOG=1");
  }
}

}  // namespace medley
