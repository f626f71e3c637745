#include "kernels/cuda/cuda_copy_lane.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/copy_range.h"

namespace medley {
namespace {

// Fences kept before Record() looks which are reached.
constexpr size_t kMarksBeforeDrop = 64;

class CudaPinnedMemory final : public PinnedMemory {
 public:
  CudaPinnedMemory(const CudaDevice& device, absl::Span<std::byte> bytes) : device_(device), bytes_(bytes) {}
  ~CudaPinnedMemory() override {
    if (device_.MakeCurrent().ok()) device_.driver().cuMemFreeHost(bytes_.data());
  }
  absl::Span<std::byte> bytes() override { return bytes_; }

 private:
  const CudaDevice& device_;
  const absl::Span<std::byte> bytes_;
};

CUdeviceptr AddressOf(Buffer& buffer, Bytes offset) {
  return reinterpret_cast<CUdeviceptr>(buffer.device_address().address) +
         static_cast<CUdeviceptr>(offset.value);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaCopyLane>> CudaCopyLane::Create(CudaQueue& queue) {
  std::unique_ptr<CudaCopyLane> lane(new CudaCopyLane(queue));
  RETURN_IF_ERROR(queue.device().MakeCurrent());
  const CUresult result = lane->driver_.cuStreamCreate(&lane->stream_, CU_STREAM_NON_BLOCKING);
  RETURN_IF_ERROR(lane->driver_.ToStatus(result, "opening a copy lane"));
  return lane;
}

CudaCopyLane::~CudaCopyLane() {
  if (stream_ == nullptr || !queue_.device().MakeCurrent().ok()) return;
  driver_.cuStreamSynchronize(stream_);
  MutexLock lock(mutex_);
  for (const auto& mark : marks_) {
    if (mark->reached != nullptr) driver_.cuEventDestroy(mark->reached);
  }
  for (const CUevent event : free_events_) driver_.cuEventDestroy(event);
  driver_.cuStreamDestroy(stream_);
}

absl::StatusOr<std::unique_ptr<PinnedMemory>> CudaCopyLane::AllocatePinned(Bytes size) {
  if (size.value < 0) return absl::InvalidArgumentError(absl::StrCat("cannot allocate ", size.value, " B"));
  RETURN_IF_ERROR(Enter());
  void* address = nullptr;
  const size_t allocated = static_cast<size_t>(std::max<int64_t>(size.value, 1));
  const CUresult result = driver_.cuMemAllocHost(&address, allocated);
  // The host may have too little page-locked memory without anything being wrong with the lane.
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    return driver_.ToStatus(result, absl::StrCat(FormatBytes(size), " of page-locked memory"));
  }
  RETURN_IF_ERROR(Submitted(result, "cuMemAllocHost"));
  return std::make_unique<CudaPinnedMemory>(
      queue_.device(),
      absl::Span<std::byte>(static_cast<std::byte*>(address), static_cast<size_t>(size.value)));
}

absl::Status CudaCopyLane::Upload(absl::Span<const std::byte> from, Buffer& to, Bytes offset) {
  RETURN_IF_ERROR(CheckCopyRange("Upload", to.size(), offset, from.size()));
  RETURN_IF_ERROR(Enter());
  if (from.empty()) return absl::OkStatus();
  return Submitted(driver_.cuMemcpyHtoDAsync(AddressOf(to, offset), from.data(), from.size(), stream_),
                   "submitting an upload to a copy lane");
}

absl::Status CudaCopyLane::Download(Buffer& from, Bytes offset, absl::Span<std::byte> to) {
  RETURN_IF_ERROR(CheckCopyRange("Download", from.size(), offset, to.size()));
  RETURN_IF_ERROR(Enter());
  if (to.empty()) return absl::OkStatus();
  return Submitted(driver_.cuMemcpyDtoHAsync(to.data(), AddressOf(from, offset), to.size(), stream_),
                   "submitting a download to a copy lane");
}

Fence CudaCopyLane::Record() {
  const absl::Status entered = Enter();
  MutexLock lock(mutex_);
  const Fence fence{++recorded_};
  if (!entered.ok()) return fence;  // every Wait() returns the error
  if (marks_.size() >= kMarksBeforeDrop) Drop(0);
  auto mark = std::make_unique<Mark>();
  mark->value = fence.value;
  CUresult result = CUDA_SUCCESS;
  if (free_events_.empty()) {
    result = driver_.cuEventCreate(&mark->reached, CU_EVENT_DISABLE_TIMING);
  } else {
    mark->reached = free_events_.back();
    free_events_.pop_back();
  }
  if (result == CUDA_SUCCESS) result = driver_.cuEventRecord(mark->reached, stream_);
  if (result != CUDA_SUCCESS)
    PoisonLocked(driver_.ToStatus(result, "recording a fence of a copy lane")).IgnoreError();
  marks_.push_back(std::move(mark));
  return fence;
}

CudaCopyLane::Mark* CudaCopyLane::Find(Fence fence) {
  if (marks_.empty() || fence.value < marks_.front()->value) return nullptr;
  return marks_[std::min<uint64_t>(fence.value - marks_.front()->value, marks_.size() - 1)].get();
}

absl::Status CudaCopyLane::Wait(Fence fence) {
  Mark* mark = nullptr;
  {
    MutexLock lock(mutex_);
    if (!error_.ok()) return error_;
    mark = Find(fence);
    if (mark == nullptr) return absl::OkStatus();
    ++mark->waiters;
  }
  absl::Status status = queue_.device().MakeCurrent();
  if (status.ok())
    status = driver_.ToStatus(driver_.cuEventSynchronize(mark->reached), "a copy lane of the GPU");
  MutexLock lock(mutex_);
  --mark->waiters;
  if (!status.ok()) return PoisonLocked(std::move(status));
  if (!error_.ok()) return error_;
  Drop(mark->value);
  return absl::OkStatus();
}

void CudaCopyLane::Drop(uint64_t known_reached) {
  while (!marks_.empty()) {
    Mark& mark = *marks_.front();
    if (mark.waiters > 0 || mark.reached == nullptr) return;
    if (mark.value > known_reached && driver_.cuEventQuery(mark.reached) != CUDA_SUCCESS) return;
    free_events_.push_back(mark.reached);
    marks_.pop_front();
  }
}

absl::Status CudaCopyLane::HoldStream(CUstream stream, Fence fence) {
  MutexLock lock(mutex_);
  if (!error_.ok()) return error_;
  const Mark* mark = Find(fence);
  if (mark == nullptr) return absl::OkStatus();
  const CUresult result = driver_.cuStreamWaitEvent(stream, mark->reached, 0);
  return result == CUDA_SUCCESS ? absl::OkStatus()
                                : PoisonLocked(driver_.ToStatus(result, "cuStreamWaitEvent"));
}

absl::Status CudaCopyLane::AwaitQueue(Fence fence) {
  RETURN_IF_ERROR(Enter());
  return queue_.HoldStream(stream_, fence);
}

absl::Status CudaCopyLane::Enter() {
  {
    MutexLock lock(mutex_);
    if (!error_.ok()) return error_;
  }
  absl::Status current = queue_.device().MakeCurrent();
  if (current.ok()) return current;
  MutexLock lock(mutex_);
  return PoisonLocked(std::move(current));
}

absl::Status CudaCopyLane::Submitted(CUresult result, const std::string& what) {
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  MutexLock lock(mutex_);
  return PoisonLocked(driver_.ToStatus(result, what));
}

absl::Status CudaCopyLane::PoisonLocked(absl::Status error) {
  if (error_.ok()) error_ = std::move(error);
  return error_;
}

absl::StatusOr<std::unique_ptr<CopyLane>> CudaQueue::OpenCopyLane() { return CudaCopyLane::Create(*this); }

absl::Status CudaQueue::AwaitLane(CopyLane& lane, Fence fence) {
  RETURN_IF_ERROR(Enter());
  return static_cast<CudaCopyLane&>(lane).HoldStream(compute_stream_, fence);
}

}  // namespace medley
