#pragma once
#include <CLI/CLI.hpp>
#include <functional>

#include "absl/status/status.h"
#include "cli/output.h"

namespace medley {

// Adds `generate`; if it is chosen, parsing sets `action`, which reads `output` when it is run, becomes medley-worker and
// returns only if that cannot be.
void AddGenerateCommand(CLI::App& app, const Output& output, std::function<absl::Status()>& action);

}  // namespace medley
