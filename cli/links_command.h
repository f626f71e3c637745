#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/connection.h"
#include "proto/medley/v1/message_protection.pb.h"

namespace medley {

struct LinksCommand {
  std::vector<std::string> pair;  // none or two
  bool refresh = false;           // measure anew first
  bool explain = false;
  std::vector<std::string> devices;  // of a group to explain
  int64_t bytes = 0;                 // that it sums
  std::string job;                   // whose traffic to show
  // Of messages; unspecified: what the coordinator and the nodes ask for.
  v1::MessageProtection protection = v1::MESSAGE_PROTECTION_UNSPECIFIED;
};

// Shows links, or explains what would be done over them, or a job's traffic, on standard output.
// InvalidArgument: options that do not go together, or a device that is not there; otherwise what went wrong,
// in one line.
absl::Status RunLinks(const Connection& connection, const LinksCommand& command);

// Adds `links`; if it is chosen, parsing sets `action`, which reads `connection` when it is run.
void AddLinksCommand(CLI::App& app, const Connection& connection, std::function<absl::Status()>& action);

}  // namespace medley
