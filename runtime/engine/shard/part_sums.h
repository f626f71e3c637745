#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "runtime/device/device.h"
#include "runtime/engine/shard/pass_shape.h"

namespace medley {

// What the ranks of a unit sum within one pass of a micro-batch, part by part (PassShape::exchange_parts): one sum at a time
// travels, beside what the pass submits meanwhile, which is of other parts. All of a micro-batch in one part is summed at once.
// Of one pass, which ends with AwaitAll(), or where it fails. Of the thread that submits to the device's queue.
class PartSums {
 public:
  // `shape`: of the micro-batch; outlives it.
  explicit PartSums(const PassShape& shape);

  int parts() const { return static_cast<int>(rows_.size()); }
  // The rows of a part in `x`, which has all rows of the micro-batch, or in sequence parallelism may have the rank's own ones.
  Slice RowsOf(int part, const Slice& x) const;

  // `x`, [rows of the part, C], becomes its sum over the ranks, in sequence parallelism of the rank's own rows; then `then`,
  // which may be null, is submitted: not before Await(part), and until that nothing else may use `x`. Errors: of RankGroup.
  absl::Status Sum(int part, const Slice& x, std::function<absl::Status()> then);
  // Sum() of one part.
  auto Of(int part) {
    return [this, part](const Slice& x, std::function<absl::Status()> then) {
      return Sum(part, x, std::move(then));
    };
  }
  // What is submitted from now on of a part follows its last sum, and what that was to be followed by. Errors: of RankGroup and
  // of `then`.
  absl::Status Await(int part);
  absl::Status AwaitAll();

 private:
  absl::Status EndSum();

  const PassShape& shape_;
  const std::vector<RowRange> rows_;                 // of each part
  std::vector<std::function<absl::Status()>> then_;  // of each part; null: nothing
  int under_way_ = -1;                               // whose sum has begun and is not awaited yet
};

}  // namespace medley
