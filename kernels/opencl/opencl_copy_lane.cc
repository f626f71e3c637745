#include "kernels/opencl/opencl_copy_lane.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/host/ordinary_memory.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/copy_range.h"

namespace medley {
namespace {

class OpenClPinnedMemory final : public PinnedMemory {
 public:
  // Takes over `memory`, mapped at `bytes`.
  OpenClPinnedMemory(OpenClQueue& queue, cl_mem memory, absl::Span<std::byte> bytes)
      : queue_(queue), memory_(memory), bytes_(bytes) {}
  // The driver keeps the memory until it is unmapped.
  ~OpenClPinnedMemory() override {
    queue_.opencl().clEnqueueUnmapMemObject(queue_.handle(), memory_, bytes_.data(), 0, nullptr, nullptr);
    queue_.opencl().clReleaseMemObject(memory_);
  }
  absl::Span<std::byte> bytes() override { return bytes_; }

 private:
  OpenClQueue& queue_;
  const cl_mem memory_;
  const absl::Span<std::byte> bytes_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PinnedMemory>> OpenClCopyLane::AllocatePinned(Bytes size) {
  RETURN_IF_ERROR(line_->error());
  if (size.value < 0) {
    return absl::InvalidArgumentError(absl::StrCat(queue_.name(), ": cannot allocate ", size.value, " B"));
  }
  const size_t mapped = static_cast<size_t>(std::max<int64_t>(size.value, 1));
  const auto failed = [&](cl_int code) {
    const absl::Status status = OpenClStatus(
        code, absl::StrCat(queue_.name(), ": ", FormatBytes(size), " of host memory for copies"));
    return absl::ResourceExhaustedError(std::string(status.message()));
  };
  const OpenClLibrary& opencl = queue_.opencl();
  cl_int code = CL_SUCCESS;
  cl_mem memory = opencl.clCreateBuffer(queue_.context(), CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, mapped,
                                        nullptr, &code);
  // Drivers have no pinned memory as large as hosts have memory; any other works.
  if (code != CL_SUCCESS) return AllocateOrdinaryMemory(size);
  void* address = opencl.clEnqueueMapBuffer(line_->handle(), memory, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                                            mapped, 0, nullptr, nullptr, &code);
  if (code != CL_SUCCESS) {
    opencl.clReleaseMemObject(memory);
    return failed(code);
  }
  return std::make_unique<OpenClPinnedMemory>(
      queue_, memory,
      absl::Span<std::byte>(static_cast<std::byte*>(address), static_cast<size_t>(size.value)));
}

absl::Status OpenClCopyLane::Upload(absl::Span<const std::byte> from, Buffer& to, Bytes offset) {
  RETURN_IF_ERROR(CheckCopyRange("Upload", to.size(), offset, from.size()));
  RETURN_IF_ERROR(line_->error());
  if (from.empty()) return absl::OkStatus();
  return line_->Submitted(queue_.opencl().clEnqueueWriteBuffer(line_->handle(), OpenClQueue::MemoryOf(to),
                                                               CL_FALSE, static_cast<size_t>(offset.value),
                                                               from.size(), from.data(), 0, nullptr, nullptr),
                          "uploading on a copy lane");
}

absl::Status OpenClCopyLane::Download(Buffer& from, Bytes offset, absl::Span<std::byte> to) {
  RETURN_IF_ERROR(CheckCopyRange("Download", from.size(), offset, to.size()));
  RETURN_IF_ERROR(line_->error());
  if (to.empty()) return absl::OkStatus();
  return line_->Submitted(queue_.opencl().clEnqueueReadBuffer(line_->handle(), OpenClQueue::MemoryOf(from),
                                                              CL_FALSE, static_cast<size_t>(offset.value),
                                                              to.size(), to.data(), 0, nullptr, nullptr),
                          "downloading on a copy lane");
}

absl::StatusOr<std::unique_ptr<CopyLane>> OpenClQueue::OpenCopyLane() {
  ASSIGN_OR_RETURN(std::unique_ptr<OpenClLine> line, OpenClLine::Open(opencl_, context_, device_.id, name()));
  return std::make_unique<OpenClCopyLane>(*this, std::move(line));
}

absl::Status OpenClQueue::AwaitLane(CopyLane& lane, Fence fence) {
  return line_->Await(static_cast<OpenClCopyLane&>(lane).line(), fence);
}

}  // namespace medley
