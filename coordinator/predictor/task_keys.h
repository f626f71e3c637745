#pragma once
#include <cstdint>

#include "absl/status/statusor.h"
#include "runtime/ir/model/model_config.h"
#include "runtime/ir/model/parameters.h"
#include "runtime/ir/plan/plan.h"
#include "runtime/ir/program/program.h"

namespace medley {

// By which number the ends of what several ranks do together find each other, in a table and not in a map, for there are millions of
// messages: one key for each message, those made ahead of a further step, too; of each step one for each segment that may begin a slice
// of some member's part, and for the scalars.
class TaskKeys {
 public:
  TaskKeys() = default;  // of nothing
  // Of so many steps of `plan` in a row. InvalidArgument: more than can be simulated ("routes: ...").
  static absl::StatusOr<TaskKeys> Of(const ModelConfig& model, const Plan& plan, int steps);

  int64_t count() const { return count_; }
  // A message is known by its micro-batch, the boundary that it crosses, whether it goes forward or backward, and the ranks at its ends,
  // each by its place in its unit.
  int64_t OfMessage(const Instruction& instruction, bool forward, int sender, int receiver) const {
    const int64_t key =
        (instruction.micro_batch * longest_route_ + instruction.boundary) * 2 + (forward ? 0 : 1);
    if (largest_unit_ == 1) return key;
    return (key * largest_unit_ + sender) * largest_unit_ + receiver;
  }
  int64_t OfSlice(int step, SegmentId first_segment, int member) const {
    return first_slice_ + (step * segments_ + first_segment) * largest_unit_ + member;
  }
  int64_t OfScalars(int step) const { return first_scalars_ + step; }

 private:
  int64_t segments_ = 0;
  int64_t longest_route_ = 1;  // stages
  int64_t largest_unit_ = 1;   // ranks
  int64_t first_slice_ = 0, first_scalars_ = 0, count_ = 0;
};

}  // namespace medley
