#include "comm/ucx/ucx_operation.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/transport/message_tag.h"
#include "comm/ucx/ucx_status.h"

namespace medley {

std::string UcxOperation::Description() const {
  return absl::StrCat(direction == Direction::kSend ? "send of " : "receive of ", bytes, " bytes ",
                      direction == Direction::kSend ? "to" : "from", " rank ", peer, " (", DescribeTag(tag),
                      ")");
}

void UcxOperation::Settle(absl::Status answer) {
  if (settled) return;
  settled = true;
  status = std::move(answer);
  changed.NotifyAll();
}

void UcxOperation::Complete(ucs_status_t ucs, size_t received) {
  request = nullptr;
  changed.NotifyAll();
  if (any_changed != nullptr) any_changed->NotifyAll();
  if (settled) return;
  const bool sized = ucs == UCS_OK || ucs == UCS_ERR_MESSAGE_TRUNCATED;
  if (direction == Direction::kReceive && sized && (received != bytes || ucs != UCS_OK)) {
    return Settle(absl::InternalError(absl::StrCat(Description(), ": the message has ", received, " bytes")));
  }
  absl::Status answer = FromUcs(ucs, Description());
  if (absl::IsUnavailable(answer)) {
    answer = absl::UnavailableError(absl::StrCat("rank ", peer, " is gone: ", answer.message()));
  }
  Settle(std::move(answer));
}

}  // namespace medley
