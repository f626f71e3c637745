#include "kernels/cuda/cuda_driver.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

absl::Status Resolve(const DynamicLibrary& library, CudaDriver& table) {
  MEDLEY_EACH_CUDA_FUNCTION(MEDLEY_RESOLVE_MEMBER)
  return absl::OkStatus();
}

absl::StatusOr<const CudaDriver*> Load() {
  ASSIGN_OR_RETURN(const CudaDriver* const driver,
                   LoadedTable("the NVIDIA driver", {"libcuda.so.1"}, Resolve));
  if (const CUresult result = driver->cuInit(0); result != CUDA_SUCCESS) {
    return absl::UnavailableError(
        std::string(driver->ToStatus(result, "the NVIDIA driver does not start").message()));
  }
  return driver;
}

}  // namespace

absl::StatusOr<const CudaDriver*> CudaDriver::Get() {
  static const auto& loaded = *new absl::StatusOr<const CudaDriver*>(Load());
  return loaded;
}

absl::Status CudaDriver::ToStatus(CUresult result, const std::string& what) const {
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  const char* name = nullptr;
  const char* words = nullptr;
  cuGetErrorName(result, &name);
  cuGetErrorString(result, &words);
  const std::string message =
      absl::StrCat(what, ": ", name == nullptr ? "unknown CUDA error" : name, " (", static_cast<int>(result),
                   "): ", words == nullptr ? "no words for it" : words);
  return result == CUDA_ERROR_OUT_OF_MEMORY ? absl::ResourceExhaustedError(message)
                                            : absl::InternalError(message);
}

}  // namespace medley
