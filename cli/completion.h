#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace medley {

// A script that makes `shell` ("bash", "zsh" or "fish") complete the commands of `app`, those below them, and the options of all;
// empty for another shell. Where neither is possible, files are completed.
std::string CompletionScript(const CLI::App& app, const std::string& shell);

}  // namespace medley
