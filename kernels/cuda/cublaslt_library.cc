#include "kernels/cuda/cublaslt_library.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

absl::Status Resolve(const DynamicLibrary& library, CublasLtLibrary& table) {
  MEDLEY_EACH_CUBLASLT_FUNCTION(MEDLEY_RESOLVE_MEMBER)
  return absl::OkStatus();
}

absl::StatusOr<const CublasLtLibrary*> Load() {
  ASSIGN_OR_RETURN(const DynamicLibrary library,
                   DynamicLibrary::Open("cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12"}));
  static CublasLtLibrary table;
  RETURN_IF_ERROR(Resolve(library, table));
  return &table;
}

}  // namespace

absl::StatusOr<const CublasLtLibrary*> CublasLtLibrary::Get() {
  static const auto& loaded = *new absl::StatusOr<const CublasLtLibrary*>(Load());
  return loaded;
}

absl::Status CublasLtLibrary::ToStatus(cublasStatus_t status, const char* what) const {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(what, ": ", cublasLtGetStatusString(status)));
}

}  // namespace medley
