#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace medley {

// Compiled programs in the files of one folder, each under a key that says all that it depends on. A cache
// that cannot be written, or an entry that was damaged, costs time and nothing else. Processes may share a
// folder.
class ProgramCache {
 public:
  // The folder is made when something is first stored. Empty: nothing is kept.
  explicit ProgramCache(std::string folder) : folder_(std::move(folder)) {}

  // $XDG_CACHE_HOME/medley/opencl, or ~/.cache/medley/opencl; empty without both variables.
  static std::string DefaultFolder();

  // What was last stored under `key`; nothing if that is none, or was damaged.
  std::optional<std::vector<uint8_t>> Load(absl::string_view key) const;

  // Replaces the entry at once: who loads meanwhile finds the old or the new one.
  void Store(absl::string_view key, const std::vector<uint8_t>& program) const;

  // The file of an entry.
  std::string PathOf(absl::string_view key) const;

 private:
  const std::string folder_;
};

}  // namespace medley
