#pragma once
#include <cublasLt.h>

#include "absl/status/statusor.h"
#include "kernels/host/dynamic_library.h"

#define MEDLEY_EACH_CUBLASLT_FUNCTION(X)  \
  X(cublasLtCreate)                       \
  X(cublasLtDestroy)                      \
  X(cublasLtGetVersion)                   \
  X(cublasLtGetStatusString)              \
  X(cublasLtMatmul)                       \
  X(cublasLtMatmulAlgoGetHeuristic)       \
  X(cublasLtMatmulDescCreate)             \
  X(cublasLtMatmulDescDestroy)            \
  X(cublasLtMatmulDescSetAttribute)       \
  X(cublasLtMatmulPreferenceCreate)       \
  X(cublasLtMatmulPreferenceDestroy)      \
  X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatrixLayoutCreate)           \
  X(cublasLtMatrixLayoutDestroy)

namespace medley {

// The functions of cuBLASLt that Medley calls, from libcublasLt.so.13 or .12.
struct CublasLtLibrary {
  MEDLEY_EACH_CUBLASLT_FUNCTION(MEDLEY_DYNAMIC_MEMBER)

  // The one table of this process, loaded at the first call; lives for ever. Any thread.
  // Unavailable: the library is not on this machine, or too old.
  static absl::StatusOr<const CublasLtLibrary*> Get();

  // OK, or Internal with `what` and the library's word for `status`.
  absl::Status ToStatus(cublasStatus_t status, const char* what) const;
};

}  // namespace medley
