#pragma once
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"

// Which waiting job starts next, on which devices ("node/device"). Pure; safe from any thread.
namespace medley {

struct WaitingJob {
  std::string id;

  // The job takes these and nothing else. Empty: it takes all devices that are free, but those of `never`.
  std::vector<std::string> devices;

  // Devices it was given before and could not be planned on. It starts only once it would get one that is not
  // among them.
  std::vector<std::string> tried_in_vain;

  // Devices that it must not be given unless it names them.
  std::vector<std::string> never;

  int priority = 0;  // higher ones go first
  size_t least =
      0;  // it starts with no fewer devices; 0: with all of `devices`, or with one where that is empty
  // And takes no more, the first ones of `preferred`, but where all of these were tried in vain first of those that were not. 0: all.
  size_t most = 0;
  // Devices, best first; those that are missing come last. Many jobs may have the same, which outlive them.
  absl::Span<const std::string> preferred;
};

struct Grant {
  std::string job;
  std::vector<std::string> devices;  // ascending, never empty
  friend bool operator==(const Grant&, const Grant&) = default;
};

// By priority, then first come, first served, device by device: the first job of `jobs` (in order of
// submission) that can start on the `free` devices, or nothing. Call again, without the job and the devices
// granted, until nothing is granted.
//
// A job that cannot start reserves what it wants: no later job gets those devices, so it starts as soon as
// they are free and cannot be overtaken for ever. Thus a job that waits for named devices holds up only jobs
// that want one of them, while one that takes whatever is free holds up everybody behind it. A named device
// that never comes keeps the others of its job idle; whoever calls leaves out a job, or a name, that should
// not be waited for.
std::optional<Grant> NextToStart(absl::Span<const WaitingJob> jobs, absl::Span<const std::string> free);

}  // namespace medley
