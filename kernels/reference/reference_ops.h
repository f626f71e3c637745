#pragma once
#include "kernels/host/host_queue.h"
#include "runtime/device/ops.h"

namespace medley {

// The ops over `queue`'s buffers; see ReferenceBackend. One file an op family defines them.
class ReferenceOps final : public Ops {
 public:
  // `queue` outlives the ops.
  explicit ReferenceOps(HostQueue& queue) : queue_(queue) {}

  absl::Status Matmul(const MatmulArgs& args) override;
  absl::Status LayerNormForward(const LayerNormForwardArgs& args) override;
  absl::Status LayerNormBackward(const LayerNormBackwardArgs& args) override;
  absl::Status GeluForward(const GeluForwardArgs& args) override;
  absl::Status GeluBackward(const GeluBackwardArgs& args) override;
  absl::Status AttentionForward(const AttentionForwardArgs& args) override;
  absl::Status AttentionBackward(const AttentionBackwardArgs& args) override;
  absl::Status EmbeddingForward(const EmbeddingForwardArgs& args) override;
  absl::Status EmbeddingBackward(const EmbeddingBackwardArgs& args) override;
  absl::Status HeadLoss(const HeadLossArgs& args) override;
  absl::Status Add(const AddArgs& args) override;
  absl::Status SumRows(const SumRowsArgs& args) override;
  absl::Status AdamW(const AdamWArgs& args) override;
  absl::Status SquaredNorm(const SquaredNormArgs& args) override;
  absl::Status Fill(const FillArgs& args) override;
  void ParametersChanged() override {}
  Bytes workspace() const override { return {0}; }

 private:
  // The argument check, then the queue's error.
  template <typename Args>
  absl::Status Accept(const Args& args);

  HostQueue& queue_;
};

}  // namespace medley
