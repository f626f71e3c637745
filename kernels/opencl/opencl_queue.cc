#include "kernels/opencl/opencl_queue.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/copy_range.h"

namespace medley {
namespace {

// Longer uploads block instead of being copied: the copy would be a second one as large.
constexpr size_t kLongestStagedUpload = size_t{4} << 20;

}  // namespace

class OpenClBuffer final : public Buffer {
 public:
  // Takes over `memory`.
  OpenClBuffer(OpenClQueue& queue, cl_mem memory, Bytes size) : queue_(queue), memory_(memory), size_(size) {}
  // The driver keeps the memory until the commands that use it have completed.
  ~OpenClBuffer() override {
    queue_.opencl_.clReleaseMemObject(memory_);
    queue_.allocated_ -= size_.value;
  }
  Bytes size() const override { return size_; }
  std::byte* host_address() override { return nullptr; }
  cl_mem memory() const { return memory_; }

 private:
  OpenClQueue& queue_;
  const cl_mem memory_;
  const Bytes size_;
};

absl::StatusOr<std::unique_ptr<OpenClQueue>> OpenClQueue::Create(const OpenClLibrary& opencl,
                                                                 const OpenClDevice& device, Bytes limit) {
  std::unique_ptr<OpenClQueue> queue(new OpenClQueue(opencl, device, std::min(limit, device.memory)));
  cl_int code = CL_SUCCESS;
  const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                              reinterpret_cast<cl_context_properties>(device.platform), 0};
  queue->context_ = opencl.clCreateContext(properties, 1, &device.id, nullptr, nullptr, &code);
  absl::Status opened = OpenClStatus(code, queue->name() + ": opening");
  if (opened.ok()) {
    auto line = OpenClLine::Open(opencl, queue->context_, device.id, queue->name());
    if (line.ok()) {
      queue->line_ = *std::move(line);
      return queue;
    }
    opened = line.status();
  }
  return absl::UnavailableError(std::string(opened.message()));
}

OpenClQueue::~OpenClQueue() {
  if (line_ != nullptr) opencl_.clFinish(handle());
  for (const Staged& upload : uploads_) opencl_.clReleaseEvent(upload.event);
  line_ = nullptr;
  if (context_ != nullptr) opencl_.clReleaseContext(context_);
}

absl::StatusOr<std::unique_ptr<Buffer>> OpenClQueue::Allocate(Bytes size) {
  if (size.value < 0)
    return absl::InvalidArgumentError(absl::StrCat(name(), ": cannot allocate ", size.value, " B"));
  const int64_t used = allocated_.load();
  if (size.value > limit_.value - used) {
    return absl::ResourceExhaustedError(absl::StrCat(name(), ": ", FormatBytes(size), " (", size.value,
                                                     " B) requested, ", FormatBytes({used}),
                                                     " in use of a limit of ", FormatBytes(limit_)));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Buffer> buffer, Create(size));
  peak_allocated_ = std::max(peak_allocated_.load(), allocated_.load());
  return buffer;
}

absl::StatusOr<std::unique_ptr<Buffer>> OpenClQueue::Create(Bytes size) {
  RETURN_IF_ERROR(error());
  const auto failed = [&](cl_int code) {
    return OpenClStatus(code,
                        absl::StrCat(name(), ": ", FormatBytes(size), " (", size.value, " B) requested, ",
                                     FormatBytes(allocated()), " in use of a limit of ", FormatBytes(limit_),
                                     ", one buffer at most ", FormatBytes(device_.largest_buffer)));
  };
  // In whole words, to be filled by them.
  const size_t filled = (static_cast<size_t>(std::max<int64_t>(size.value, 1)) + 15) / 16 * 16;
  cl_int code = CL_SUCCESS;
  cl_mem memory = opencl_.clCreateBuffer(context_, CL_MEM_READ_WRITE, filled, nullptr, &code);
  if (code != CL_SUCCESS) return failed(code);
  allocated_ += size.value;
  auto buffer = std::make_unique<OpenClBuffer>(*this, memory, size);
  const cl_uint zero[4] = {};
  code = opencl_.clEnqueueFillBuffer(handle(), memory, zero, sizeof(zero), 0, filled, 0, nullptr, nullptr);
  if (code != CL_SUCCESS) return failed(code);
  return std::unique_ptr<Buffer>(std::move(buffer));
}

cl_mem OpenClQueue::MemoryOf(const Buffer& buffer) {
  return static_cast<const OpenClBuffer&>(buffer).memory();
}

absl::Status OpenClQueue::Upload(absl::Span<const std::byte> from, Buffer& to, Bytes offset) {
  RETURN_IF_ERROR(CheckCopyRange("Upload", to.size(), offset, from.size()));
  RETURN_IF_ERROR(error());
  if (from.empty()) return absl::OkStatus();
  DropDoneUploads();
  const bool staged = from.size() <= kLongestStagedUpload;
  if (staged) uploads_.push_back({{from.begin(), from.end()}, nullptr});
  const cl_int code = opencl_.clEnqueueWriteBuffer(handle(), MemoryOf(to), staged ? CL_FALSE : CL_TRUE,
                                                   static_cast<size_t>(offset.value), from.size(),
                                                   staged ? uploads_.back().bytes.data() : from.data(), 0,
                                                   nullptr, staged ? &uploads_.back().event : nullptr);
  if (staged && code != CL_SUCCESS) uploads_.pop_back();
  return line_->Submitted(code, "uploading");
}

absl::Status OpenClQueue::Download(Buffer& from, Bytes offset, absl::Span<std::byte> to) {
  RETURN_IF_ERROR(CheckCopyRange("Download", from.size(), offset, to.size()));
  RETURN_IF_ERROR(error());
  if (to.empty()) return absl::OkStatus();
  const cl_int code =
      opencl_.clEnqueueReadBuffer(handle(), MemoryOf(from), CL_FALSE, static_cast<size_t>(offset.value),
                                  to.size(), to.data(), 0, nullptr, nullptr);
  return line_->Submitted(code, "downloading");
}

void OpenClQueue::DropDoneUploads() {
  while (!uploads_.empty()) {
    cl_int status = CL_QUEUED;
    const absl::Status outcome = line_->Outcome(uploads_.front().event, &status);
    if (!outcome.ok()) (void)Poison(outcome);
    if (outcome.ok() && status != CL_COMPLETE) return;
    opencl_.clReleaseEvent(uploads_.front().event);
    uploads_.pop_front();
  }
}

}  // namespace medley
