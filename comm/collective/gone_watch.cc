#include "comm/collective/gone_watch.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr absl::Duration kSuspicious = absl::Milliseconds(50);

}  // namespace

absl::Status GoneWatch::Listen() {
  const MessageTag tag{MessageTag::Kind::kReduce, channel_, kSequence};
  for (const int member : members_) {
    if (!transport_.IsPeer(member)) continue;
    ASSIGN_OR_RETURN(std::unique_ptr<Transfer> posted, transport_.Receive(member, tag, {}));
    listening_.emplace_back(member, std::move(posted));
  }
  return absl::OkStatus();
}

absl::Status GoneWatch::Check(absl::Duration waited) {
  if (waited < kSuspicious) return absl::OkStatus();
  if (!started_.has_value()) started_ = Listen();
  RETURN_IF_ERROR(*started_);
  for (const auto& [rank, transfer] : listening_) {
    if (!transfer->Done()) continue;
    RETURN_IF_ERROR(
        Annotate(transfer->Wait(absl::InfiniteFuture()), absl::StrCat("collective with rank ", rank)));
  }
  return absl::OkStatus();
}

}  // namespace medley
