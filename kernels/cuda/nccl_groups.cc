#include "kernels/cuda/nccl_groups.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

class NcclGroup final : public DeviceGroup {
 public:
  NcclGroup(CudaQueue& queue, const NcclLibrary& library) : queue_(queue), library_(library) {}
  ~NcclGroup() override;

  absl::Status Join(const ncclUniqueId& id, int member, int members);
  absl::Status Sum(const Slice& values, Fence after) override;
  absl::StatusOr<bool> Done() override;
  void Abort() override { (void)Fail(absl::CancelledError("the group of GPUs was aborted")); }

 private:
  // What was submitted last. A sum is first taken by the library, and then on the stream.
  enum class Stage { kJoining, kIdle, kLaunching, kRunning };

  const CudaDriver& driver() const { return queue_.device().driver(); }
  // Makes `error` the group's, unless it has one, and ends what is under way. Returns the group's.
  absl::Status Fail(absl::Status error);
  absl::Status Check(ncclResult_t result, const char* what) {
    absl::Status status = library_.ToStatus(result, what);
    return status.ok() ? status : Fail(std::move(status));
  }
  absl::Status Check(CUresult result, const char* what) {
    absl::Status status = driver().ToStatus(result, what);
    return status.ok() ? status : Fail(std::move(status));
  }
  void EndCommunicator();

  CudaQueue& queue_;
  const NcclLibrary& library_;
  CUstream stream_ = nullptr;
  CUevent summed_ = nullptr;
  ncclComm_t communicator_ = nullptr;
  Stage stage_ = Stage::kJoining;
  absl::Status error_;
};

NcclGroup::~NcclGroup() {
  if (!queue_.device().MakeCurrent().ok()) return;
  // Even of an idle one: a good end would be one of all members together, some of which may be gone.
  EndCommunicator();
  if (stream_ != nullptr) {
    driver().cuStreamSynchronize(stream_);
    driver().cuStreamDestroy(stream_);
  }
  if (summed_ != nullptr) driver().cuEventDestroy(summed_);
}

void NcclGroup::EndCommunicator() {
  const ncclComm_t communicator = std::exchange(communicator_, nullptr);
  if (communicator == nullptr) return;
  // Nothing can be done about a result, which has no use any more.
  (void)library_.ncclCommAbort(communicator);
}

absl::Status NcclGroup::Fail(absl::Status error) {
  if (error_.ok()) {
    error_ = std::move(error);
    if (queue_.device().MakeCurrent().ok()) EndCommunicator();
  }
  return error_;
}

absl::Status NcclGroup::Join(const ncclUniqueId& id, int member, int members) {
  RETURN_IF_ERROR(queue_.device().MakeCurrent());
  RETURN_IF_ERROR(Check(driver().cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
  RETURN_IF_ERROR(Check(driver().cuEventCreate(&summed_, CU_EVENT_DISABLE_TIMING), "cuEventCreate"));
  ncclConfig_t config;
  config.blocking = 0;
  return Check(library_.ncclCommInitRankConfig(&communicator_, members, id, member, &config),
               "joining a group of GPUs");
}

absl::Status NcclGroup::Sum(const Slice& values, Fence after) {
  RETURN_IF_ERROR(error_);
  if (stage_ != Stage::kIdle)
    return absl::FailedPreconditionError("the group is at work on what it was given before");
  RETURN_IF_ERROR(queue_.device().MakeCurrent());
  if (const absl::Status held = queue_.HoldStream(stream_, after); !held.ok()) return Fail(held);
  std::byte* const address =
      values.empty() ? nullptr : values.buffer->device_address().address + values.offset_bytes;
  stage_ = Stage::kLaunching;
  return Check(library_.ncclAllReduce(address, address, static_cast<size_t>(values.elements), ncclFloat32,
                                      ncclSum, communicator_, stream_),
               "submitting a sum to a group of GPUs");
}

absl::StatusOr<bool> NcclGroup::Done() {
  RETURN_IF_ERROR(error_);
  if (stage_ == Stage::kIdle) return true;
  RETURN_IF_ERROR(queue_.device().MakeCurrent());
  const char* const what =
      stage_ == Stage::kJoining ? "joining a group of GPUs" : "summing in a group of GPUs";
  ncclResult_t result = ncclSuccess;
  RETURN_IF_ERROR(Check(library_.ncclCommGetAsyncError(communicator_, &result), what));
  RETURN_IF_ERROR(Check(result, what));
  if (result == ncclInProgress) return false;
  if (stage_ == Stage::kLaunching) {
    RETURN_IF_ERROR(Check(driver().cuEventRecord(summed_, stream_), "cuEventRecord"));
    stage_ = Stage::kRunning;
  }
  if (stage_ == Stage::kRunning) {
    const CUresult reached = driver().cuEventQuery(summed_);
    if (reached == CUDA_ERROR_NOT_READY) return false;
    RETURN_IF_ERROR(Check(reached, what));
  }
  stage_ = Stage::kIdle;
  return true;
}

}  // namespace

absl::StatusOr<std::string> NcclGroups::MakeId() {
  RETURN_IF_ERROR(queue_.device().MakeCurrent());
  ncclUniqueId id;
  static_assert(sizeof(id.internal) <= kMostIdBytes);
  RETURN_IF_ERROR(library_.ToStatus(library_.ncclGetUniqueId(&id), "making a group of GPUs"));
  return std::string(id.internal, sizeof(id.internal));
}

absl::StatusOr<std::unique_ptr<DeviceGroup>> NcclGroups::Join(const std::string& id, int member,
                                                              int members) {
  ncclUniqueId made;
  if (id.size() != sizeof(made.internal)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the id of a group of GPUs has ", id.size(), " bytes, not ", sizeof(made.internal)));
  }
  std::memcpy(made.internal, id.data(), id.size());
  queue_.KeepFreed();
  auto group = std::make_unique<NcclGroup>(queue_, library_);
  RETURN_IF_ERROR(group->Join(made, member, members));
  return group;
}

}  // namespace medley
