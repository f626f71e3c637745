#pragma once
#include <CLI/CLI.hpp>
#include <functional>

#include "absl/status/status.h"

namespace medley {

// Adds `generate`; if it is chosen, parsing sets `action`, which becomes medley-worker and returns only if
// that cannot be.
void AddGenerateCommand(CLI::App& app, std::function<absl::Status()>& action);

}  // namespace medley
