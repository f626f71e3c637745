#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"
#include "runtime/ir/program/program.h"

namespace medley {

// What a stream is at: an instruction, or between steps something else.
struct Activity {
  Instruction instruction;
  std::vector<int> peers;  // ranks that it cannot end without
  absl::Time since;
  std::string what;  // empty: the instruction
};

// "reduce gradients of slice 2 (4.0 MiB) with ranks 0, 3 for 12.0 s"
std::string Describe(const Activity& activity, absl::Time now);

// What the streams of a rank are at, for those who ask while they are. Thread-safe.
class ActivityBoard {
 public:
  // Between steps, what else the rank does: "step 12", "checkpoint of step 12".
  void Enter(const std::string& phase);

  void Begin(const Instruction& instruction, std::vector<int> peers);
  // Between steps: the collective stream is at `what`, which is no instruction: "gather segments".
  void BeginExchange(const std::string& what, std::vector<int> peers);
  void End(Stream stream);

  std::string Phase() const;
  // The activities of the streams that are at something.
  std::vector<Activity> Running() const;
  // Whether some are, and none can end without other ranks.
  bool WaitsForPeers() const;

  // "step 12: forward of micro-batch 3 for 0.2 s; receive activation of micro-batch 4 (1.0 MiB) with rank 0
  // for 0.1 s"
  std::string Describe(absl::Time now) const;

 private:
  mutable Mutex mutex_;
  std::string phase_ ABSL_GUARDED_BY(mutex_) = "nothing yet";
  absl::Time phase_since_ ABSL_GUARDED_BY(mutex_) = Now();
  std::array<std::optional<Activity>, kStreams> streams_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace medley
