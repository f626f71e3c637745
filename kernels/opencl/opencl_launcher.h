#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "kernels/opencl/opencl_program.h"
#include "kernels/opencl/opencl_queue.h"
#include "kernels/portable/launcher.h"

namespace medley {

// Runs the portable kernels on an OpenClQueue. What the driver refuses poisons the queue.
class OpenClLauncher final : public KernelLauncher {
 public:
  // Compiles the kernels, or takes them from `cache`. `queue` outlives the launcher. Errors: of
  // BuildOpenClProgram.
  static absl::StatusOr<std::unique_ptr<OpenClLauncher>> Create(OpenClQueue& queue,
                                                                const ProgramCache& cache);
  ~OpenClLauncher() override;

  absl::Status Launch(const char* kernel, const LaunchShape& shape,
                      absl::Span<const KernelArgument> arguments) override;
  absl::StatusOr<Slice> Scratch(int index, Bytes size) override;
  Bytes scratch_size() const override;
  bool has_f64() const override { return queue_.device().has_f64; }
  bool has_exact_f32() const override { return queue_.device().has_exact_f32; }

 private:
  OpenClLauncher(OpenClQueue& queue, cl_program program) : queue_(queue), program_(program) {}
  absl::StatusOr<cl_kernel> Find(const char* kernel);

  OpenClQueue& queue_;
  const cl_program program_;
  std::map<std::string, cl_kernel, std::less<>> kernels_;
  std::unique_ptr<Buffer> scratch_[kScratchIndexes];
};

}  // namespace medley
