#include "kernels/cuda/cuda_launcher.h"

#include <cstring>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

// The kernels' image, generated at build time from cuda_kernels.cu: machine code by GPU generation.
extern "C" const unsigned long long medley_cuda_kernels[];

namespace medley {
namespace {

// The most groups of a grid in each dimension, as the driver has them.
constexpr int64_t kMostGroups[3] = {2147483647, 65535, 65535};

// Room for any argument by value; a kernel's parameters are pointers to such.
using Parameter = uint64_t;

}  // namespace

absl::StatusOr<std::unique_ptr<CudaLauncher>> CudaLauncher::Create(CudaQueue& queue) {
  RETURN_IF_ERROR(queue.Enter());
  const CudaDriver& driver = queue.device().driver();
  CUmodule module = nullptr;
  const absl::Status loaded =
      driver.ToStatus(driver.cuModuleLoadData(&module, medley_cuda_kernels), "loading the kernels");
  if (!loaded.ok()) return absl::UnavailableError(std::string(loaded.message()));
  return std::unique_ptr<CudaLauncher>(new CudaLauncher(queue, module));
}

CudaLauncher::~CudaLauncher() {
  scratch_.clear();
  if (queue_.device().MakeCurrent().ok()) queue_.device().driver().cuModuleUnload(module_);
}

absl::StatusOr<CUfunction> CudaLauncher::Find(const char* kernel) {
  if (const auto found = functions_.find(kernel); found != functions_.end()) return found->second;
  const CudaDriver& driver = queue_.device().driver();
  CUfunction function = nullptr;
  RETURN_IF_ERROR(driver.ToStatus(driver.cuModuleGetFunction(&function, module_, kernel),
                                  absl::StrCat("looking for kernel ", kernel)));
  functions_.emplace(kernel, function);
  return function;
}

absl::Status CudaLauncher::Launch(const char* kernel, const LaunchShape& shape,
                                  absl::Span<const KernelArgument> arguments) {
  RETURN_IF_ERROR(queue_.Enter());
  for (int i = 0; i < 3; ++i) {
    if (shape.groups[i] == 0) return absl::OkStatus();
    if (shape.groups[i] < 0 || shape.groups[i] > kMostGroups[i]) {
      return absl::InternalError(absl::StrCat("kernel ", kernel, ": ", shape.groups[i],
                                              " groups in dimension ", i, "; a grid has at most ",
                                              kMostGroups[i]));
    }
  }
  ASSIGN_OR_RETURN(const CUfunction function, Find(kernel));
  absl::InlinedVector<Parameter, 24> values(arguments.size(), 0);
  absl::InlinedVector<void*, 24> pointers(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    pointers[i] = &values[i];
    if (const Slice* slice = std::get_if<Slice>(&arguments[i])) {
      ASSIGN_OR_RETURN(values[i], queue_.Address(*slice));
      continue;
    }
    std::visit(
        [&](const auto& value) {
          std::memcpy(&values[i], &value, std::min(sizeof(value), sizeof(Parameter)));
        },
        arguments[i]);
  }
  const CUresult result = queue_.device().driver().cuLaunchKernel(
      function, static_cast<unsigned>(shape.groups[0]), static_cast<unsigned>(shape.groups[1]),
      static_cast<unsigned>(shape.groups[2]), static_cast<unsigned>(shape.group_size), 1, 1, 0,
      queue_.compute_stream(), pointers.data(), nullptr);
  return queue_.Submitted(result, absl::StrCat("kernel ", kernel));
}

absl::StatusOr<Slice> CudaLauncher::Scratch(int index, Bytes size) {
  if (static_cast<size_t>(index) >= scratch_.size()) scratch_.resize(static_cast<size_t>(index) + 1);
  std::unique_ptr<Buffer>& buffer = scratch_[static_cast<size_t>(index)];
  if (buffer == nullptr || buffer->size() < size) {
    buffer = nullptr;  // before the larger one: both may not fit
    ASSIGN_OR_RETURN(buffer, queue_.AllocateWorkspace(size));
  }
  return Slice{buffer.get(), 0, buffer->size().value / 4};
}

Bytes CudaLauncher::scratch_size() const {
  Bytes sum{0};
  for (const auto& buffer : scratch_) {
    if (buffer != nullptr) sum += buffer->size();
  }
  return sum;
}

}  // namespace medley
