#pragma once
#include <CLI/CLI.hpp>
#include <functional>

#include "absl/status/status.h"
#include "cli/connection.h"

namespace medley {

// `medley check`, `medley debug bundle`, `medley debug stacks` and `medley jobs gc`: for who keeps a cluster going.
void AddOperatorCommands(CLI::App& app, const Connection& connection, std::function<absl::Status()>& action);

}  // namespace medley
