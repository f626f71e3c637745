#pragma once
#include "kernels/opencl/opencl_queue.h"
#include "kernels/portable/launcher.h"
#include "runtime/device/uniform_ops.h"

namespace medley {

// Matmul by CLBlast, in f32 whatever the precision; bias and epilogue follow by a portable kernel. Declines
// everything else, and a matmul with a size of zero.
class ClblastOps final : public DecliningOps {
 public:
  // `launcher` submits to `queue`; both outlive the ops.
  ClblastOps(const ClblastLibrary& clblast, OpenClQueue& queue, KernelLauncher& launcher)
      : clblast_(clblast), queue_(queue), launcher_(launcher) {}

  absl::Status Matmul(const MatmulArgs& args) override;

 private:
  absl::Status AddPart(const MatmulArgs& args, int64_t first);

  const ClblastLibrary& clblast_;
  OpenClQueue& queue_;
  KernelLauncher& launcher_;
};

}  // namespace medley
