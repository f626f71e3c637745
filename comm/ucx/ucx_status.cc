#include "comm/ucx/ucx_status.h"

#include "absl/strings/str_cat.h"

namespace medley {

absl::Status FromUcs(ucs_status_t status, const std::string& doing) {
  if (status == UCS_OK) return absl::OkStatus();
  const std::string what = absl::StrCat(doing, ": ", ucs_status_string(status));
  switch (status) {
    case UCS_ERR_NO_MEMORY:
    case UCS_ERR_NO_RESOURCE:
      return absl::ResourceExhaustedError(what);
    case UCS_ERR_INVALID_PARAM:
    case UCS_ERR_INVALID_ADDR:
    case UCS_ERR_NO_ELEM:
      return absl::InvalidArgumentError(what);
    case UCS_ERR_CANCELED:
      return absl::CancelledError(what);
    case UCS_ERR_NO_DEVICE:
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_REJECTED:
    case UCS_ERR_TIMED_OUT:
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_IO_ERROR:
    case UCS_ERR_SHMEM_SEGMENT:  // the segment of a peer that has just died cannot be attached
      return absl::UnavailableError(what);
    default:
      if (UCS_IS_LINK_ERROR(status) || UCS_IS_ENDPOINT_ERROR(status)) return absl::UnavailableError(what);
      return absl::InternalError(what);
  }
}

}  // namespace medley
