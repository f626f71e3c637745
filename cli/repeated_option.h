#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace medley {

// An option that may be given several times, each with one value. `values` outlives the parsing.
inline void AddRepeatedOption(CLI::App& command, const std::string& option, std::vector<std::string>& values,
                              const std::string& what) {
  command
      .add_option_function<std::string>(
          option, [&values](const std::string& value) { values.push_back(value); }, what)
      ->trigger_on_parse();
}

}  // namespace medley
