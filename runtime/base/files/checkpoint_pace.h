#pragma once
#include <cstdint>

#include "absl/time/time.h"

namespace medley {

// How fast a file of a checkpoint is written or read: as fast as the disk allows or, where the environment
// variable MEDLEY_CHECKPOINT_BYTES_PER_SECOND is a positive number, at most so many bytes a second, for file
// servers that others need, too. One for each file; not thread-safe.
class CheckpointPace {
 public:
  CheckpointPace();

  // Bytes to write or read between two calls of Passed, at most 1 MiB.
  int64_t piece_bytes() const { return piece_bytes_; }

  // `bytes` more have been written or read: counts as progress of the process (runtime/base/progress.h), and
  // blocks until as many may have been.
  void Passed(int64_t bytes);

 private:
  const absl::Time start_;
  double bytes_per_second_ = 0;  // 0: any
  int64_t piece_bytes_ = int64_t{1} << 20;
  double passed_bytes_ = 0;
};

}  // namespace medley
