#include "comm/ucx/ucx_operation.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/transport/message_tag.h"
#include "comm/ucx/ucx_status.h"

namespace medley {

std::string UcxOperation::Description() const {
  return absl::StrCat(sends() ? "send of " : "receive of ", bytes, " bytes ", sends() ? "to" : "from",
                      " rank ", peer, " (", DescribeTag(tag), ")");
}

void UcxOperation::Settle(absl::Status answer) {
  if (settled.load(std::memory_order_relaxed)) return;
  status = std::move(answer);
  settled.store(true, std::memory_order_release);
  changed.NotifyAll();
}

absl::Status UcxOperation::Answer(ucs_status_t ucs, size_t received) const {
  if (ucs == UCS_OK && (sends() || received == bytes)) return absl::OkStatus();
  if (!sends() && (ucs == UCS_OK || ucs == UCS_ERR_MESSAGE_TRUNCATED)) {
    return absl::InternalError(absl::StrCat(Description(), ": the message has ", received, " bytes"));
  }
  absl::Status answer = FromUcs(ucs, Description());
  if (!absl::IsUnavailable(answer)) return answer;
  return absl::UnavailableError(absl::StrCat("rank ", peer, " is gone: ", answer.message()));
}

}  // namespace medley
