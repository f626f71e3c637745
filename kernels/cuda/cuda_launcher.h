#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/cuda_queue.h"
#include "kernels/portable/launcher.h"

namespace medley {

// Launches the kernels that are compiled into this program (cuda_kernels.cu) on the compute stream of a
// CudaQueue.
class CudaLauncher final : public KernelLauncher {
 public:
  // `queue` outlives the launcher.
  // Unavailable: the driver refuses the kernels' image, with its words: it is older than the compiler that
  // made them.
  static absl::StatusOr<std::unique_ptr<CudaLauncher>> Create(CudaQueue& queue);
  ~CudaLauncher() override;

  absl::Status Launch(const char* kernel, const LaunchShape& shape,
                      absl::Span<const KernelArgument> arguments) override;
  absl::StatusOr<Slice> Scratch(int index, Bytes size) override;
  Bytes scratch_size() const override;
  bool has_f64() const override { return true; }

 private:
  CudaLauncher(CudaQueue& queue, CUmodule module) : queue_(queue), module_(module) {}
  absl::StatusOr<CUfunction> Find(const char* kernel);

  CudaQueue& queue_;
  const CUmodule module_;
  std::map<std::string, CUfunction, std::less<>> functions_;
  std::vector<std::unique_ptr<Buffer>> scratch_;
};

}  // namespace medley
