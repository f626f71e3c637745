#pragma once
#include "kernels/host/host_queue.h"
#include "runtime/device/ops.h"

namespace medley {

// The ops over `queue`'s buffers; see ReferenceBackend. One file an op family defines them.
class ReferenceOps final : public Ops {
 public:
  // `queue` outlives the ops.
  explicit ReferenceOps(HostQueue& queue) : queue_(queue) {}

#define MEDLEY_DECLARE_OP(name) absl::Status name(const name##Args& args) override;
  MEDLEY_EACH_OP(MEDLEY_DECLARE_OP)
#undef MEDLEY_DECLARE_OP
  void ParametersChanged() override {}

 private:
  // The argument check, then the queue's error.
  template <typename Args>
  absl::Status Accept(const Args& args);

  HostQueue& queue_;
};

}  // namespace medley
