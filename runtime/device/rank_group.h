#pragma once
#include "absl/status/status.h"
#include "runtime/device/ops.h"

namespace medley {

// What the ranks of a unit exchange within a pass, beside the device's ops and like them submitted to its
// queue, in order. All ranks of the unit call the same methods in the same order with slices of the same
// sizes. One thread at a time.
class RankGroup {
 public:
  virtual ~RankGroup() = default;

  // This rank's place among those of the unit, from 0.
  virtual int member() const = 0;

  // `x`, f32 or bf16, becomes its sum over the ranks: the same bits on all of them. Errors: a rank is gone, or the
  // device's.
  virtual absl::Status Sum(const Slice& x) = 0;
};

}  // namespace medley
