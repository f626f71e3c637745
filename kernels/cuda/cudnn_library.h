#pragma once
#include <cudnn_graph.h>

#include "absl/status/statusor.h"
#include "kernels/host/dynamic_library.h"

#define MEDLEY_EACH_CUDNN_FUNCTION(X) \
  X(cudnnGetVersion)                  \
  X(cudnnGetErrorString)              \
  X(cudnnGetLastErrorString)          \
  X(cudnnCreate)                      \
  X(cudnnDestroy)                     \
  X(cudnnSetStream)                   \
  X(cudnnBackendCreateDescriptor)     \
  X(cudnnBackendDestroyDescriptor)    \
  X(cudnnBackendFinalize)             \
  X(cudnnBackendSetAttribute)         \
  X(cudnnBackendGetAttribute)         \
  X(cudnnBackendExecute)

namespace medley {

// The functions of cuDNN's graph interface that Medley calls, from libcudnn.so.9.
struct CudnnLibrary {
  MEDLEY_EACH_CUDNN_FUNCTION(MEDLEY_DYNAMIC_MEMBER)

  // The one table of this process, loaded at the first call; lives for ever. Any thread.
  // Unavailable: the library is not on this machine, or too old.
  static absl::StatusOr<const CudnnLibrary*> Get();

  // OK; Unimplemented if cuDNN says that it does not support this; otherwise Internal. The message has
  // `what`, cuDNN's word for `status` and its last message on this thread.
  absl::Status ToStatus(cudnnStatus_t status, const char* what) const;
};

}  // namespace medley
