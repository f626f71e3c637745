#include "kernels/skeleton/skeleton_line.h"

#include <utility>

namespace medley {

absl::Status SkeletonLine::Submit(std::function<absl::Status()> work) {
  if (!error_.ok()) return error_;
  waiting_.push_back(std::move(work));
  ++submitted_;
  return absl::OkStatus();
}

absl::Status SkeletonLine::AdvanceTo(uint64_t count) {
  while (!waiting_.empty() && submitted_ - waiting_.size() < count) {
    if (error_.ok()) {
      // Through another line it may come back to this one, but for nothing that stands behind it.
      absl::Status status = waiting_.front()();
      if (error_.ok()) error_ = std::move(status);
    }
    waiting_.pop_front();
  }
  return error_;
}

}  // namespace medley
