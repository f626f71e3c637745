#include "comm/collective/gone_watch.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {

GoneWatch::GoneWatch(Transport& transport, absl::Span<const int> members, uint16_t channel) {
  const MessageTag tag{MessageTag::Kind::kReduce, channel, kSequence};
  for (const int member : members) {
    if (!transport.IsPeer(member)) continue;
    absl::StatusOr<std::unique_ptr<Transfer>> posted = transport.Receive(member, tag, {});
    if (!posted.ok()) {
      started_ = posted.status();
      return;
    }
    listening_.emplace_back(member, *std::move(posted));
  }
}

absl::Status GoneWatch::Check() {
  RETURN_IF_ERROR(started_);
  for (const auto& [rank, transfer] : listening_) {
    if (!transfer->Done()) continue;
    RETURN_IF_ERROR(
        Annotate(transfer->Wait(absl::InfiniteFuture()), absl::StrCat("collective with rank ", rank)));
  }
  return absl::OkStatus();
}

}  // namespace medley
