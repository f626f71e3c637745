#include "kernels/opencl/opencl_launcher.h"

#include "absl/strings/str_cat.h"
#include "kernels/portable/portable_source.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// Sets the arguments of a kernel one after another; `code` is the first failure.
struct ArgumentSetter {
  const OpenClLibrary& opencl;
  cl_kernel kernel;
  cl_uint index = 0;
  cl_int code = CL_SUCCESS;

  template <typename T>
  void operator()(const T& value) {
    const cl_int set = opencl.clSetKernelArg(kernel, index++, sizeof(value), &value);
    if (code == CL_SUCCESS) code = set;
  }
  // A buffer and a byte offset, as SLICE declares them.
  void operator()(const Slice& slice) {
    (*this)(slice.empty() ? cl_mem{nullptr} : OpenClQueue::MemoryOf(*slice.buffer));
    (*this)(cl_long{slice.offset_bytes});
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<OpenClLauncher>> OpenClLauncher::Create(OpenClQueue& queue,
                                                                       const ProgramCache& cache) {
  ASSIGN_OR_RETURN(const OpenClProgram built, BuildOpenClProgram(queue, PortableSource(), cache));
  return std::unique_ptr<OpenClLauncher>(new OpenClLauncher(queue, built.program));
}

OpenClLauncher::~OpenClLauncher() {
  for (const auto& [name, kernel] : kernels_) queue_.opencl().clReleaseKernel(kernel);
  queue_.opencl().clReleaseProgram(program_);
}

absl::StatusOr<cl_kernel> OpenClLauncher::Find(const char* kernel) {
  if (const auto found = kernels_.find(absl::string_view(kernel)); found != kernels_.end())
    return found->second;
  cl_int code = CL_SUCCESS;
  cl_kernel created = queue_.opencl().clCreateKernel(program_, kernel, &code);
  RETURN_IF_ERROR(OpenClStatus(code, absl::StrCat(queue_.name(), ": looking for kernel ", kernel)));
  kernels_.emplace(kernel, created);
  return created;
}

absl::Status OpenClLauncher::Launch(const char* kernel, const LaunchShape& shape,
                                    absl::Span<const KernelArgument> arguments) {
  RETURN_IF_ERROR(queue_.error());
  if (shape.groups[0] == 0 || shape.groups[1] == 0 || shape.groups[2] == 0) return absl::OkStatus();
  const absl::StatusOr<cl_kernel> found = Find(kernel);
  if (!found.ok()) return queue_.Poison(found.status());
  ArgumentSetter set{queue_.opencl(), *found};
  for (const KernelArgument& argument : arguments) std::visit(set, argument);
  if (set.code != CL_SUCCESS) {
    return queue_.Poison(
        OpenClStatus(set.code, absl::StrCat(queue_.name(), ": arguments of kernel ", kernel)));
  }
  const size_t group_size[3] = {static_cast<size_t>(shape.group_size), 1, 1};
  size_t items[3];
  for (int i = 0; i < 3; ++i) items[i] = static_cast<size_t>(shape.groups[i]) * group_size[i];
  const cl_int code = queue_.opencl().clEnqueueNDRangeKernel(queue_.handle(), *found, 3, nullptr, items,
                                                             group_size, 0, nullptr, nullptr);
  if (code == CL_SUCCESS) return absl::OkStatus();
  return queue_.Poison(OpenClStatus(code, absl::StrCat(queue_.name(), ": kernel ", kernel)));
}

absl::StatusOr<Slice> OpenClLauncher::Scratch(int index, Bytes size) {
  std::unique_ptr<Buffer>& buffer = scratch_[index];
  if (buffer == nullptr || buffer->size() < size) {
    buffer.reset();  // the old one first: both may not fit
    ASSIGN_OR_RETURN(buffer, queue_.Allocate(size));
  }
  return Slice{buffer.get(), 0, buffer->size().value / 4};
}

Bytes OpenClLauncher::scratch_size() const {
  Bytes sum{0};
  for (const std::unique_ptr<Buffer>& buffer : scratch_) {
    if (buffer != nullptr) sum += buffer->size();
  }
  return sum;
}

}  // namespace medley
