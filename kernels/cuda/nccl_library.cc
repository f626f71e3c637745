#include "kernels/cuda/nccl_library.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

absl::Status Resolve(const DynamicLibrary& library, NcclLibrary& table) {
  MEDLEY_EACH_NCCL_FUNCTION(MEDLEY_RESOLVE_MEMBER)
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<const NcclLibrary*> NcclLibrary::Get() {
  return LoadedTable("NCCL", {"libnccl.so.2"}, Resolve);
}

std::string NcclLibrary::Name() const {
  int version = 0;  // 21403 is 2.14.3
  if (ncclGetVersion(&version) != ncclSuccess) return "NCCL";
  return absl::StrCat("NCCL ", version / 10000, ".", version / 100 % 100, ".", version % 100);
}

absl::Status NcclLibrary::ToStatus(ncclResult_t result, const std::string& what) const {
  if (result == ncclSuccess || result == ncclInProgress) return absl::OkStatus();
  const char* const last = ncclGetLastError(nullptr);
  const absl::string_view words = absl::StripAsciiWhitespace(last == nullptr ? "" : last);
  return absl::InternalError(
      absl::StrCat(what, ": ", ncclGetErrorString(result), words.empty() ? "" : ": ", words));
}

}  // namespace medley
