#include "kernels/cuda/cublaslt_library.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

absl::Status Resolve(const DynamicLibrary& library, CublasLtLibrary& table) {
  MEDLEY_EACH_CUBLASLT_FUNCTION(MEDLEY_RESOLVE_MEMBER)
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<const CublasLtLibrary*> CublasLtLibrary::Get() {
  return LoadedTable("cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12"}, Resolve);
}

absl::Status CublasLtLibrary::ToStatus(cublasStatus_t status, const char* what) const {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(what, ": ", cublasLtGetStatusString(status)));
}

}  // namespace medley
