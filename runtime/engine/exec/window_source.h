#pragma once
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/ir/program/program.h"

namespace medley {

// Where a rank's tokens come from: a function of the job alone, never of the plan.
// Thread: one at a time.
class WindowSource {
 public:
  virtual ~WindowSource() = default;
  // Makes what takes long before the first sequence of training step `step` (from 0) can be read: to be
  // called while no other rank waits for what is read. Reading works without it.
  virtual void Prepare(int64_t step) {}
  // Sequence `index` (of the global batch) of training step `step` (from 0), or of validation batch `step`:
  // sequence + 1 ids, so that the first `sequence` are inputs and the last `sequence` targets.
  // InvalidArgument: an id outside the vocabulary, or no validation data. DataLoss, ...: the file.
  virtual absl::Status Read(Purpose purpose, int64_t step, int index, absl::Span<int32_t> ids) = 0;
};

}  // namespace medley
