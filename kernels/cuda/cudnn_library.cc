#include "kernels/cuda/cudnn_library.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

absl::Status Resolve(const DynamicLibrary& library, CudnnLibrary& table) {
  MEDLEY_EACH_CUDNN_FUNCTION(MEDLEY_RESOLVE_MEMBER)
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<const CudnnLibrary*> CudnnLibrary::Get() {
  return LoadedTable("cuDNN", {"libcudnn.so.9"}, Resolve);
}

absl::Status CudnnLibrary::ToStatus(cudnnStatus_t status, const char* what) const {
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  char words[512] = "";
  cudnnGetLastErrorString(words, sizeof(words));
  const std::string message = absl::StrCat(what, ": ", cudnnGetErrorString(status), ": ", std::string(words));
  const bool unsupported = CUDNN_STATUS_CATEGORY(static_cast<int>(status)) == CUDNN_STATUS_NOT_SUPPORTED;
  return unsupported ? absl::UnimplementedError(message) : absl::InternalError(message);
}

}  // namespace medley
