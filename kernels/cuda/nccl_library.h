#pragma once
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/nccl_interface.h"
#include "kernels/host/dynamic_library.h"

#define MEDLEY_EACH_NCCL_FUNCTION(X) \
  X(ncclGetVersion)                  \
  X(ncclGetErrorString)              \
  X(ncclGetLastError)                \
  X(ncclGetUniqueId)                 \
  X(ncclCommInitRankConfig)          \
  X(ncclCommGetAsyncError)           \
  X(ncclCommAbort)                   \
  X(ncclAllReduce)                   \
  X(ncclAllGather)                   \
  X(ncclReduceScatter)               \
  X(ncclBroadcast)                   \
  X(ncclReduce)                      \
  X(ncclGroupStart)                  \
  X(ncclGroupEnd)

namespace medley {

// The functions of NCCL that Medley calls, from libnccl.so.2.
struct NcclLibrary {
  MEDLEY_EACH_NCCL_FUNCTION(MEDLEY_DYNAMIC_MEMBER)

  // The one table of this process, loaded at the first call; lives for ever. Any thread.
  // Unavailable: the library is not on this machine, or older than 2.14.
  static absl::StatusOr<const NcclLibrary*> Get();

  // "NCCL 2.28.3".
  std::string Name() const;

  // OK, also for what is in progress; or Internal with `what`, the library's word for `result`, and what it
  // said of its last error.
  absl::Status ToStatus(ncclResult_t result, const std::string& what) const;
};

}  // namespace medley
