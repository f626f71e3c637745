#pragma once
#include <deque>
#include <functional>

#include "absl/status/status.h"

namespace medley {

// Work in order, done no sooner than someone waits for it. Where a driver has a stream, this has a list of
// closures. Not thread-safe: the lines of a queue have one mutex among them, because work of one may wait for
// another.
class SkeletonLine {
 public:
  // `work` runs after all that was submitted before it, unless some of that failed. Its error is the line's
  // from then on. Returns the line's error.
  absl::Status Submit(std::function<absl::Status()> work);

  uint64_t submitted() const { return submitted_; }

  // Does what is left of the first `count` pieces of work; fewer are done already where this is called from
  // one of them. Returns the line's error.
  absl::Status AdvanceTo(uint64_t count);

 private:
  std::deque<std::function<absl::Status()>> waiting_;
  uint64_t submitted_ = 0;
  absl::Status error_;
};

}  // namespace medley
