#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "cli/output.h"

namespace medley {

struct AlignCommand {
  std::string devices;                         // two, "A,B"
  std::map<std::string, std::string> options;  // of medley-worker align, by name: "--model"
  std::string keep;                            // where the files stay; empty: they are removed at the end
};

// Runs the same training and the same ops on both devices and on the reference, each in a medley-worker of
// its own, and prints how they compare. Needs no coordinator. Blocks; the workers end with it.
// Aborted: the devices part, the message is the verdict. InvalidArgument: the options, the model or a device,
// which may not be there. Cancelled: Ctrl-C. Otherwise what kept it from finding out.
absl::Status RunAlign(const AlignCommand& command, Output output);

// Adds `align`; if it is chosen, parsing sets `action`, which reads `output` when it is run.
void AddAlignCommand(CLI::App& app, const Output& output, std::function<absl::Status()>& action);

}  // namespace medley
