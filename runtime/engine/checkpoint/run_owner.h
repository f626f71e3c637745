#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Whose a folder of checkpoints is: a file run.json in it names the run, and its newest launch. A launch
// claims the folder before it trains, and holds the file against itself before it writes or removes anything
// there, so that a worker that was given up and does not know it does no harm.
namespace medley {

inline constexpr char kRunOwnerName[] = "run.json";

struct RunOwner {
  // Random; tells this run from another of the same job id. Empty: nothing is claimed or compared.
  std::string run;
  std::string job;      // its id, for people
  uint64_t launch = 0;  // grows with every launch
  friend bool operator==(const RunOwner&, const RunOwner&) = default;
};

// Nothing: `root` or the file is not there. Errors: DataLoss, the file is damaged; otherwise the code of
// FileError.
absl::StatusOr<std::optional<RunOwner>> ReadRunOwner(const std::string& root);

// Writes the file, durably, creating `root` if need be. Errors: those of AtomicFile and CreateDirectories.
absl::Status WriteRunOwner(const std::string& root, const RunOwner& owner);

// Aborted: `root` belongs to another run, or to a later launch of `own`; the message names both. A file that
// is missing, or of an earlier launch, is no error. Otherwise the errors of ReadRunOwner.
absl::Status CheckRunOwner(const std::string& root, const RunOwner& own);

// CheckRunOwner, and writes the file again where it is missing or of an earlier launch. By one process of a
// launch.
absl::Status KeepRunOwner(const std::string& root, const RunOwner& own);

}  // namespace medley
