#pragma once
#include <csignal>
#include <functional>
#include <string>

namespace medley {

// What a daemon and its service manager say to each other: systemd's protocol (sd_notify(3), daemon(7)), which others speak,
// too. Without a service manager ($NOTIFY_SOCKET is not set) nothing is said, and all else is as with one.

// Keeps the signals that WaitForStop takes from all threads that are started from now on: SIGINT, SIGTERM, SIGHUP. Called
// before any is.
void BlockDaemonSignals();

// The daemon serves. `status`: what it is at, one line, for `systemctl status`.
void TellReady(const std::string& status);

struct DaemonWatch {
  // Called several times within each interval of the service manager's watchdog, if it has one: returns if the daemon is well,
  // and does not while it hangs, so that the manager hears nothing and starts it anew. Null: it is always well.
  std::function<void()> is_well;
  // Called at SIGHUP: reads the configuration again. Null: nothing is done.
  std::function<void()> reload;
};
// Whether a daemon that does not listen for it in WaitForStop, since it stops already or does not serve yet, is asked to stop by a SIGINT or
// SIGTERM within so many milliseconds.
bool IsAskedAgain(int milliseconds);

// Waits for SIGINT or SIGTERM, and says that the daemon stops. Returns which it was.
int WaitForStop(const DaemonWatch& watch);

}  // namespace medley
