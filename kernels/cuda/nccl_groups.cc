#include "kernels/cuda/nccl_groups.h"

#include <cstring>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

absl::StatusOr<ncclDataType_t> TypeOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return ncclFloat32;
    case Dtype::kBf16:
      return ncclBfloat16;
    case Dtype::kF16:
      return ncclFloat16;
    default:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a group of GPUs exchanges no ", std::string(NameOf(dtype))));
}

bool IsOk(ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; }

class NcclGroup final : public DeviceGroup {
 public:
  NcclGroup(CudaQueue& queue, const NcclLibrary& library, int member)
      : queue_(queue), library_(library), member_(member) {}
  ~NcclGroup() override;

  absl::Status Join(const ncclUniqueId& id, int members);
  absl::Status Sum(const Slice& values, Fence after) override;
  absl::Status Gather(const Slice& values, absl::Span<const int64_t> ends, Fence after) override;
  absl::Status Scatter(const Slice& values, absl::Span<const int64_t> ends, Fence after) override;
  absl::StatusOr<bool> HoldQueue() override;
  absl::StatusOr<bool> Done() override;
  void Abort() override { (void)Fail(absl::CancelledError("the group of GPUs was aborted")); }

 private:
  // What was submitted last. An exchange is first taken by the library, and then on the stream.
  enum class Stage { kJoining, kIdle, kLaunching, kRunning };

  // Of `values` that the members cut at elements `ends`: member m's part.
  struct Part {
    std::byte* address = nullptr;
    size_t count = 0;
  };
  struct Cut {
    ncclDataType_t type = ncclFloat32;
    std::byte* address = nullptr;  // of all
    std::vector<Part> parts;
    bool is_even = true;
  };
  static absl::StatusOr<Cut> CutAt(const Slice& values, absl::Span<const int64_t> ends);

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
  // Submits what `call` asks the library for, behind `after`.
  absl::Status Submit(Fence after, absl::FunctionRef<ncclResult_t()> call);
  // Calls of_part(m) for each member's part with elements in it, as one call of the library.
  ncclResult_t ForEachPart(const Cut& cut, absl::FunctionRef<ncclResult_t(int m)> of_part);
  // Whether the library has taken what was submitted.
  absl::StatusOr<bool> IsTaken();
  void EndCommunicator();

  CudaQueue& queue_;
  const NcclLibrary& library_;
  const int member_;
  CUstream stream_ = nullptr;
  CUevent done_ = nullptr;  // on the stream, behind what was taken last
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
  if (done_ != nullptr) driver().cuEventDestroy(done_);
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

absl::Status NcclGroup::Join(const ncclUniqueId& id, int members) {
  RETURN_IF_ERROR(queue_.device().MakeCurrent());
  RETURN_IF_ERROR(Check(driver().cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
  RETURN_IF_ERROR(Check(driver().cuEventCreate(&done_, CU_EVENT_DISABLE_TIMING), "cuEventCreate"));
  ncclConfig_t config;
  config.blocking = 0;
  return Check(library_.ncclCommInitRankConfig(&communicator_, members, id, member_, &config),
               "joining a group of GPUs");
}

absl::Status NcclGroup::Submit(Fence after, absl::FunctionRef<ncclResult_t()> call) {
  RETURN_IF_ERROR(error_);
  if (stage_ == Stage::kJoining || stage_ == Stage::kLaunching)
    return absl::FailedPreconditionError("the group is at work on what it was given before");
  RETURN_IF_ERROR(queue_.device().MakeCurrent());
  if (const absl::Status held = queue_.HoldStream(stream_, after); !held.ok()) return Fail(held);
  stage_ = Stage::kLaunching;
  return Check(call(), "submitting to a group of GPUs");
}

absl::StatusOr<NcclGroup::Cut> NcclGroup::CutAt(const Slice& values, absl::Span<const int64_t> ends) {
  Cut cut;
  ASSIGN_OR_RETURN(cut.type, TypeOf(values.dtype));
  if (!values.empty()) cut.address = values.buffer->device_address().address + values.offset_bytes;
  int64_t first = 0;
  for (const int64_t end : ends) {
    cut.parts.push_back({cut.address + first * SizeOf(values.dtype).value, static_cast<size_t>(end - first)});
    cut.is_even &= cut.parts.back().count == cut.parts.front().count;
    first = end;
  }
  return cut;
}

ncclResult_t NcclGroup::ForEachPart(const Cut& cut, absl::FunctionRef<ncclResult_t(int m)> of_part) {
  ncclResult_t result = library_.ncclGroupStart();
  for (int m = 0; m < static_cast<int>(cut.parts.size()) && IsOk(result); ++m) {
    if (cut.parts[m].count > 0) result = of_part(m);
  }
  const ncclResult_t ended = library_.ncclGroupEnd();
  return IsOk(result) ? ended : result;
}

absl::Status NcclGroup::Sum(const Slice& values, Fence after) {
  const int64_t all[] = {values.elements};
  ASSIGN_OR_RETURN(const Cut cut, CutAt(values, all));
  return Submit(after, [&] {
    return library_.ncclAllReduce(cut.address, cut.address, cut.parts[0].count, cut.type, ncclSum,
                                  communicator_, stream_);
  });
}

absl::Status NcclGroup::Gather(const Slice& values, absl::Span<const int64_t> ends, Fence after) {
  ASSIGN_OR_RETURN(const Cut cut, CutAt(values, ends));
  return Submit(after, [&] {
    if (cut.is_even) {
      const Part& own = cut.parts[member_];
      return library_.ncclAllGather(own.address, cut.address, own.count, cut.type, communicator_, stream_);
    }
    return ForEachPart(cut, [&](int m) {
      const Part& part = cut.parts[m];
      return library_.ncclBroadcast(part.address, part.address, part.count, cut.type, m, communicator_,
                                    stream_);
    });
  });
}

absl::Status NcclGroup::Scatter(const Slice& values, absl::Span<const int64_t> ends, Fence after) {
  ASSIGN_OR_RETURN(const Cut cut, CutAt(values, ends));
  return Submit(after, [&] {
    if (cut.is_even) {
      const Part& own = cut.parts[member_];
      return library_.ncclReduceScatter(cut.address, own.address, own.count, cut.type, ncclSum, communicator_,
                                        stream_);
    }
    return ForEachPart(cut, [&](int m) {
      const Part& part = cut.parts[m];
      return library_.ncclReduce(part.address, m == member_ ? part.address : nullptr, part.count, cut.type,
                                 ncclSum, m, communicator_, stream_);
    });
  });
}

absl::StatusOr<bool> NcclGroup::IsTaken() {
  RETURN_IF_ERROR(error_);
  if (stage_ == Stage::kIdle || stage_ == Stage::kRunning) return true;
  const char* const what =
      stage_ == Stage::kJoining ? "joining a group of GPUs" : "exchanging in a group of GPUs";
  ncclResult_t result = ncclSuccess;
  RETURN_IF_ERROR(Check(library_.ncclCommGetAsyncError(communicator_, &result), what));
  RETURN_IF_ERROR(Check(result, what));
  if (result == ncclInProgress) return false;
  if (stage_ == Stage::kJoining) {
    stage_ = Stage::kIdle;
    return true;
  }
  RETURN_IF_ERROR(Check(driver().cuEventRecord(done_, stream_), "cuEventRecord"));
  stage_ = Stage::kRunning;
  return true;
}

absl::StatusOr<bool> NcclGroup::HoldQueue() {
  RETURN_IF_ERROR(error_);
  RETURN_IF_ERROR(queue_.device().MakeCurrent());
  ASSIGN_OR_RETURN(const bool taken, IsTaken());
  if (!taken || stage_ == Stage::kIdle) return taken;
  RETURN_IF_ERROR(Check(driver().cuStreamWaitEvent(queue_.compute_stream(), done_, 0), "cuStreamWaitEvent"));
  return true;
}

absl::StatusOr<bool> NcclGroup::Done() {
  RETURN_IF_ERROR(error_);
  if (stage_ == Stage::kIdle) return true;
  RETURN_IF_ERROR(queue_.device().MakeCurrent());
  ASSIGN_OR_RETURN(const bool taken, IsTaken());
  if (!taken) return false;
  if (stage_ == Stage::kRunning) {
    // Asked in this order: what fails has its error before the stream goes on as if it were done.
    constexpr char kWhat[] = "exchanging in a group of GPUs";
    const CUresult reached = driver().cuEventQuery(done_);
    ncclResult_t result = ncclSuccess;
    RETURN_IF_ERROR(Check(library_.ncclCommGetAsyncError(communicator_, &result), kWhat));
    RETURN_IF_ERROR(Check(result, kWhat));
    if (reached == CUDA_ERROR_NOT_READY) return false;
    RETURN_IF_ERROR(Check(reached, kWhat));
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
  auto group = std::make_unique<NcclGroup>(queue_, library_, member);
  RETURN_IF_ERROR(group->Join(made, members));
  return group;
}

}  // namespace medley
