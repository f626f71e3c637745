#pragma once
#include <CLI/CLI.hpp>
#include <functional>

#include "absl/status/status.h"

namespace medley {

// Adds what `medley align` starts: `align` (one party's work) and `align-check` (whether devices can be
// opened). If one of them is chosen, parsing sets `action`.
void AddAlignCommands(CLI::App& app, std::function<absl::Status()>& action);

}  // namespace medley
