#pragma once
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "runtime/daemon/service_manager.h"

namespace medley {

// A daemon, of which RunDaemon is the main().
struct Daemon {
  std::string name;         // "medley-agent"
  std::string log_name;     // "agent": in lines of the log
  std::string description;  // of --help, a sentence
  std::string environment_prefix;
  google::protobuf::Message* config = nullptr;  // is read into; has fields log_level and log_format
  // Fills in what a configuration leaves open, and checks it. InvalidArgument: what it says.
  std::function<absl::Status(google::protobuf::Message*)> fill_defaults;
  // Where it is set there is an option --restore FILE, which does this by `config`, and nothing else.
  std::function<absl::Status(const std::string& file)> restore;
  // Serves by `config` until Wait returns. Called after the configuration has been read, with the signals blocked.
  std::function<absl::Status()> serve;
};

// Reads the command line and the configuration (daemon_config.h), and serves. Returns what main does:
//   0  it was asked to stop, by SIGINT or SIGTERM; or the configuration was shown or checked
//   1  it could not go on
//   2  the command line or the configuration is wrong: another start ends in the same way
// Errors are one line on standard error.
int RunDaemon(int argc, char** argv, const Daemon& daemon);

// For `serve`: says that the daemon is ready, and waits until it is to stop. At SIGHUP the configuration is read again, and of
// what has changed the log level takes effect; the rest is named in the log.
void ServeUntilStopped(const Daemon& daemon, const std::string& status, std::function<void()> is_well);

}  // namespace medley
