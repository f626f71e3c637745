#pragma once
#include "kernels/skeleton/skeleton_queue.h"
#include "runtime/device/uniform_ops.h"

namespace medley {

// The kernels that this backend has of its own: one. What is not overridden here is declined.
class SkeletonOps final : public DecliningOps {
 public:
  // `queue` outlives the ops.
  explicit SkeletonOps(SkeletonQueue& queue) : queue_(queue) {}

  // Adds multiples of 4 elements only.
  absl::Status Add(const AddArgs& args) override;

 private:
  SkeletonQueue& queue_;
};

}  // namespace medley
