#pragma once
#include <CLI/CLI.hpp>
#include <functional>

#include "absl/status/status.h"
#include "cli/connection.h"

namespace medley {

// Adds `join-token` with `create`, `list` and `revoke`; if one is chosen, parsing sets `action`, which reads `connection` when it is run.
void AddJoinTokenCommand(CLI::App& app, const Connection& connection, std::function<absl::Status()>& action);

}  // namespace medley
