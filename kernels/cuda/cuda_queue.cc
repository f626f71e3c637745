#include "kernels/cuda/cuda_queue.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/copy_range.h"

namespace medley {
namespace {

// Large enough that a copy over PCIe takes far longer than its submission.
constexpr size_t kStagingBytes = size_t{4} << 20;
constexpr size_t kUploadStagings = 4, kUploadAlignment = 64;
// As many bytes of downloads may be under way before a submission waits for the oldest.
constexpr size_t kDownloadStagings = 16;
constexpr int64_t kAlignmentBytes = 256;
// Fences kept before Record() looks which are reached.
constexpr size_t kMarksBeforeDrop = 64;

}  // namespace

class CudaBuffer final : public Buffer {
 public:
  CudaBuffer(CudaQueue& queue, CUdeviceptr address, Bytes size)
      : queue(queue), address(address), size_bytes(size) {}
  ~CudaBuffer() override { queue.Free(*this); }
  Bytes size() const override { return size_bytes; }
  std::byte* host_address() override { return nullptr; }
  DeviceAddress device_address() override {
    return {AddressKind::kCuda, reinterpret_cast<std::byte*>(address)};
  }

  CudaQueue& queue;
  const CUdeviceptr address;
  const Bytes size_bytes;
  // Recorded on the copy stream after the last download from here, while the compute stream has not waited
  // for it.
  CUevent downloaded = nullptr;
  bool download_under_way = false;
};

absl::StatusOr<std::unique_ptr<CudaQueue>> CudaQueue::Create(std::unique_ptr<CudaDevice> device,
                                                             Bytes limit) {
  std::unique_ptr<CudaQueue> queue(new CudaQueue(std::move(device), limit));
  if (absl::Status status = queue->CreateStreams(); !status.ok()) {
    return absl::UnavailableError(std::string(status.message()));
  }
  return queue;
}

absl::Status CudaQueue::CreateStreams() {
  RETURN_IF_ERROR(device_->MakeCurrent());
  const auto ok = [&](CUresult result, const char* what) { return driver().ToStatus(result, what); };
  RETURN_IF_ERROR(ok(driver().cuStreamCreate(&compute_stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
  RETURN_IF_ERROR(ok(driver().cuStreamCreate(&copy_stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
  RETURN_IF_ERROR(ok(driver().cuEventCreate(&before_download_, CU_EVENT_DISABLE_TIMING), "cuEventCreate"));
  const auto create = [&](size_t count, std::vector<Staging>& stagings) -> absl::Status {
    stagings.resize(count);
    for (Staging& staging : stagings) {
      void* memory = nullptr;
      RETURN_IF_ERROR(ok(driver().cuMemAllocHost(&memory, kStagingBytes), "cuMemAllocHost"));
      staging.memory = static_cast<std::byte*>(memory);
      RETURN_IF_ERROR(ok(driver().cuEventCreate(&staging.event, CU_EVENT_DISABLE_TIMING), "cuEventCreate"));
    }
    return absl::OkStatus();
  };
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(create(kUploadStagings, uploads_));
  return create(kDownloadStagings, arrivals_staging_);
}

// A backstop: whatever fails here has failed before, or the process ends.
CudaQueue::~CudaQueue() {
  if (!device_->MakeCurrent().ok()) return;
  if (compute_stream_ != nullptr) driver().cuStreamSynchronize(compute_stream_);
  if (copy_stream_ != nullptr) driver().cuStreamSynchronize(copy_stream_);
  ReleaseFreed();
  MutexLock lock(mutex_);
  const auto destroy = [&](CUevent event) {
    if (event != nullptr) driver().cuEventDestroy(event);
  };
  for (const std::vector<Staging>* stagings : {&uploads_, &arrivals_staging_}) {
    for (const Staging& staging : *stagings) {
      if (staging.memory != nullptr) driver().cuMemFreeHost(staging.memory);
      destroy(staging.event);
    }
  }
  for (const auto& mark : marks_) destroy(mark->reached);
  for (const CUevent event : free_events_) destroy(event);
  destroy(before_download_);
  if (compute_stream_ != nullptr) driver().cuStreamDestroy(compute_stream_);
  if (copy_stream_ != nullptr) driver().cuStreamDestroy(copy_stream_);
}

std::string CudaQueue::name() const {
  const CudaDevice::Properties& properties = device_->properties();
  return absl::StrCat("cuda: ", properties.name, " (sm_", properties.compute_major, properties.compute_minor,
                      ")");
}

absl::StatusOr<std::unique_ptr<Buffer>> CudaQueue::Allocate(Bytes size) {
  ASSIGN_OR_RETURN(std::unique_ptr<Buffer> buffer, AllocateWorkspace(size));
  if (size.value > 0) {
    const CUdeviceptr address = static_cast<CudaBuffer&>(*buffer).address;
    RETURN_IF_ERROR(
        Submitted(driver().cuMemsetD8Async(address, 0, static_cast<size_t>(size.value), compute_stream_),
                  "zeroing a buffer"));
  }
  return buffer;
}

absl::StatusOr<std::unique_ptr<Buffer>> CudaQueue::AllocateWorkspace(Bytes size) {
  if (size.value < 0)
    return absl::InvalidArgumentError(absl::StrCat("size is ", size.value, " B, must be 0 or more"));
  RETURN_IF_ERROR(Enter());
  const int64_t now = allocated_.load();
  if (size.value > limit_.value - now) {
    return absl::ResourceExhaustedError(absl::StrCat("the device's limit is ", limit_.value, " B, ", now,
                                                     " B are in use, ", size.value, " B were asked for"));
  }
  const int64_t padded =
      std::max<int64_t>(1, (size.value + kAlignmentBytes - 1) / kAlignmentBytes) * kAlignmentBytes;
  CUdeviceptr address = 0;
  CUresult result = driver().cuMemAlloc(&address, static_cast<size_t>(padded));
  if (result == CUDA_ERROR_OUT_OF_MEMORY && ReleaseFreed())
    result = driver().cuMemAlloc(&address, static_cast<size_t>(padded));
  // A device that is full fails this allocation, not the queue.
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    return driver().ToStatus(result,
                             absl::StrCat("the device's limit is ", limit_.value, " B, ", allocated_.load(),
                                          " B are in use, ", size.value, " B were asked for"));
  }
  RETURN_IF_ERROR(Submitted(result, "cuMemAlloc"));
  allocated_ += size.value;
  peak_allocated_.store(std::max(peak_allocated_.load(), allocated_.load()));
  return std::make_unique<CudaBuffer>(*this, address, size);
}

void CudaQueue::Free(CudaBuffer& buffer) {
  allocated_ -= buffer.size_bytes.value;
  if (!device_->MakeCurrent().ok()) return;
  driver().cuStreamSynchronize(compute_stream_);
  driver().cuStreamSynchronize(copy_stream_);
  if (buffer.downloaded != nullptr) driver().cuEventDestroy(buffer.downloaded);
  if (keeps_freed_) {
    MutexLock lock(mutex_);
    freed_.push_back(buffer.address);
  } else {
    driver().cuMemFree(buffer.address);
  }
}

bool CudaQueue::ReleaseFreed() {
  std::vector<CUdeviceptr> freed;
  {
    MutexLock lock(mutex_);
    freed.swap(freed_);
  }
  for (const CUdeviceptr address : freed) driver().cuMemFree(address);
  return !freed.empty();
}

absl::Status CudaQueue::Upload(absl::Span<const std::byte> from, Buffer& to, Bytes offset) {
  RETURN_IF_ERROR(Enter());
  RETURN_IF_ERROR(CheckCopyRange("Upload", to.size(), offset, from.size()));
  if (from.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const CUdeviceptr address,
                   Address({&to, offset.value, static_cast<int64_t>(from.size())}));
  for (size_t done = 0; done < from.size(); done += kStagingBytes) {
    RETURN_IF_ERROR(UploadPiece(from.subspan(done, kStagingBytes), address + done));
  }
  return absl::OkStatus();
}

absl::Status CudaQueue::UploadPiece(absl::Span<const std::byte> from, CUdeviceptr to) {
  // Small uploads share a staging until it is full: only then is waited, for what the next one held last.
  if (upload_bytes_ + from.size() > kStagingBytes) {
    upload_ = (upload_ + 1) % uploads_.size();
    upload_bytes_ = 0;
    if (uploads_[upload_].in_flight) {
      RETURN_IF_ERROR(
          Submitted(driver().cuEventSynchronize(uploads_[upload_].event), "waiting for an upload"));
      uploads_[upload_].in_flight = false;
    }
  }
  Staging& staging = uploads_[upload_];
  std::byte* const memory = staging.memory + upload_bytes_;
  std::memcpy(memory, from.data(), from.size());
  RETURN_IF_ERROR(Submitted(driver().cuMemcpyHtoDAsync(to, memory, from.size(), compute_stream_),
                            "submitting an upload"));
  RETURN_IF_ERROR(Submitted(driver().cuEventRecord(staging.event, compute_stream_), "cuEventRecord"));
  staging.in_flight = true;
  upload_bytes_ += (from.size() + kUploadAlignment - 1) / kUploadAlignment * kUploadAlignment;
  return absl::OkStatus();
}

absl::Status CudaQueue::Download(Buffer& from, Bytes offset, absl::Span<std::byte> to) {
  RETURN_IF_ERROR(Enter());
  RETURN_IF_ERROR(CheckCopyRange("Download", from.size(), offset, to.size()));
  if (to.empty()) return absl::OkStatus();
  CudaBuffer& buffer = static_cast<CudaBuffer&>(from);
  if (buffer.downloaded == nullptr) {
    RETURN_IF_ERROR(
        Submitted(driver().cuEventCreate(&buffer.downloaded, CU_EVENT_DISABLE_TIMING), "cuEventCreate"));
  }
  RETURN_IF_ERROR(Submitted(driver().cuEventRecord(before_download_, compute_stream_), "cuEventRecord"));
  RETURN_IF_ERROR(
      Submitted(driver().cuStreamWaitEvent(copy_stream_, before_download_, 0), "cuStreamWaitEvent"));
  const CUdeviceptr address = buffer.address + static_cast<CUdeviceptr>(offset.value);
  for (size_t done = 0; done < to.size(); done += kStagingBytes) {
    RETURN_IF_ERROR(DownloadPiece(address + done, to.subspan(done, kStagingBytes)));
  }
  RETURN_IF_ERROR(Submitted(driver().cuEventRecord(buffer.downloaded, copy_stream_), "cuEventRecord"));
  buffer.download_under_way = true;
  return absl::OkStatus();
}

absl::Status CudaQueue::DownloadPiece(CUdeviceptr from, absl::Span<std::byte> to) {
  MutexLock lock(mutex_);
  // The stagings are used in turn: the next is free once what it held last is delivered.
  const uint64_t stagings = arrivals_staging_.size();
  if (arrivals_submitted_ >= stagings) RETURN_IF_ERROR(Deliver(arrivals_submitted_ - stagings + 1));
  const size_t index = arrivals_submitted_ % stagings;
  const Staging& staging = arrivals_staging_[index];
  CUresult result = driver().cuMemcpyDtoHAsync(staging.memory, from, to.size(), copy_stream_);
  if (result == CUDA_SUCCESS) result = driver().cuEventRecord(staging.event, copy_stream_);
  if (result != CUDA_SUCCESS) return PoisonLocked(driver().ToStatus(result, "submitting a download"));
  arrivals_.push_back({index, to.data(), to.size()});
  ++arrivals_submitted_;
  return absl::OkStatus();
}

absl::Status CudaQueue::Deliver(uint64_t count) {
  while (arrivals_delivered_ < count) {
    const Arrival& arrival = arrivals_.front();
    const Staging& staging = arrivals_staging_[arrival.staging];
    const CUresult result = driver().cuEventSynchronize(staging.event);
    if (result != CUDA_SUCCESS) return PoisonLocked(driver().ToStatus(result, "waiting for a download"));
    std::memcpy(arrival.to, staging.memory, arrival.size_bytes);
    arrivals_.pop_front();
    ++arrivals_delivered_;
  }
  return absl::OkStatus();
}

Fence CudaQueue::Record() {
  const absl::Status entered = Enter();
  MutexLock lock(mutex_);
  const Fence fence{++recorded_};
  if (!entered.ok()) return fence;  // every Wait() returns the error
  if (marks_.size() >= kMarksBeforeDrop) DropReached();
  auto mark = std::make_unique<Mark>();
  mark->value = fence.value;
  mark->arrivals_before = arrivals_submitted_;
  mark->reached = TakeEvent();
  CUresult result = mark->reached == nullptr ? CUDA_ERROR_OUT_OF_MEMORY
                                             : driver().cuEventRecord(mark->reached, compute_stream_);
  // Downloads are waited for one by one as they are delivered: the fence needs no event of the copy stream.
  if (result != CUDA_SUCCESS) PoisonLocked(driver().ToStatus(result, "recording a fence")).IgnoreError();
  marks_.push_back(std::move(mark));
  return fence;
}

absl::Status CudaQueue::Wait(Fence fence) {
  Mark* mark = nullptr;
  {
    MutexLock lock(mutex_);
    if (!error_.ok()) return error_;
    // The marks are without gaps: a fence before the first is reached, and its downloads are delivered.
    if (marks_.empty() || fence.value < marks_.front()->value) return absl::OkStatus();
    mark = marks_[std::min<uint64_t>(fence.value - marks_.front()->value, marks_.size() - 1)].get();
    ++mark->waiters;
  }
  absl::Status status = device_->MakeCurrent();
  if (status.ok()) status = driver().ToStatus(driver().cuEventSynchronize(mark->reached), "the GPU");
  MutexLock lock(mutex_);
  --mark->waiters;
  if (!status.ok()) return PoisonLocked(std::move(status));
  if (!error_.ok()) return error_;
  RETURN_IF_ERROR(Deliver(mark->arrivals_before));
  // Drops this fence and those before it, as far as nobody else waits for them.
  while (!marks_.empty() && marks_.front()->value <= fence.value && marks_.front()->waiters == 0) {
    free_events_.push_back(marks_.front()->reached);
    marks_.pop_front();
  }
  return absl::OkStatus();
}

absl::Status CudaQueue::HoldStream(CUstream stream, Fence fence) {
  MutexLock lock(mutex_);
  if (!error_.ok()) return error_;
  if (marks_.empty() || fence.value < marks_.front()->value) return absl::OkStatus();
  const Mark& mark = *marks_[std::min<uint64_t>(fence.value - marks_.front()->value, marks_.size() - 1)];
  CUresult result = driver().cuStreamWaitEvent(stream, mark.reached, 0);
  // The copy stream is in order: the last download before the fence is enough. Had its staging been used
  // again, it would have been delivered.
  if (result == CUDA_SUCCESS && mark.arrivals_before > arrivals_delivered_) {
    const Staging& last = arrivals_staging_[(mark.arrivals_before - 1) % arrivals_staging_.size()];
    result = driver().cuStreamWaitEvent(stream, last.event, 0);
  }
  return result == CUDA_SUCCESS ? absl::OkStatus()
                                : PoisonLocked(driver().ToStatus(result, "cuStreamWaitEvent"));
}

absl::StatusOr<GroupLibrary*> CudaQueue::groups() {
  RETURN_IF_ERROR(groups_.status());
  return groups_->get();
}

void CudaQueue::DropReached() {
  while (!marks_.empty()) {
    Mark& mark = *marks_.front();
    if (mark.waiters > 0 || mark.reached == nullptr || driver().cuEventQuery(mark.reached) != CUDA_SUCCESS)
      return;
    // What it promises of downloads must be kept before it is forgotten.
    if (!Deliver(mark.arrivals_before).ok()) return;
    free_events_.push_back(mark.reached);
    marks_.pop_front();
  }
}

CUevent CudaQueue::TakeEvent() {
  if (!free_events_.empty()) {
    const CUevent event = free_events_.back();
    free_events_.pop_back();
    return event;
  }
  CUevent event = nullptr;
  return driver().cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS ? event : nullptr;
}

absl::StatusOr<CUdeviceptr> CudaQueue::Address(const Slice& slice) {
  if (slice.empty()) return CUdeviceptr{0};
  CudaBuffer& buffer = static_cast<CudaBuffer&>(*slice.buffer);
  if (buffer.download_under_way) {
    RETURN_IF_ERROR(
        Submitted(driver().cuStreamWaitEvent(compute_stream_, buffer.downloaded, 0), "cuStreamWaitEvent"));
    buffer.download_under_way = false;
  }
  return buffer.address + static_cast<CUdeviceptr>(slice.offset_bytes);
}

absl::Status CudaQueue::Enter() {
  if (poisoned_.load()) return error();
  absl::Status status = device_->MakeCurrent();
  return status.ok() ? status : Poison(std::move(status));
}

absl::Status CudaQueue::Submitted(CUresult result, const std::string& what) {
  return result == CUDA_SUCCESS ? absl::OkStatus() : Poison(driver().ToStatus(result, what));
}

absl::Status CudaQueue::Poison(absl::Status error) {
  MutexLock lock(mutex_);
  return PoisonLocked(std::move(error));
}

absl::Status CudaQueue::PoisonLocked(absl::Status error) {
  if (error_.ok()) error_ = std::move(error);
  poisoned_ = true;
  return error_;
}

absl::Status CudaQueue::error() const {
  MutexLock lock(mutex_);
  return error_;
}

}  // namespace medley
