#include "coordinator/rpc/stream_quota.h"

#include "absl/strings/str_cat.h"

namespace medley {

absl::StatusOr<StreamQuota::Slot> StreamQuota::Open(const std::string& client) {
  MutexLock lock(mutex_);
  const auto found = open_.find(client);
  const int of_client = found == open_.end() ? 0 : found->second;
  if (of_client >= kMostOfClient)
    return absl::ResourceExhaustedError(absl::StrCat(
        "\"", client, "\" has ", of_client, " streams open, as many as a client may have: end one first"));
  if (all_ >= kMostOfAll)
    return absl::ResourceExhaustedError(
        absl::StrCat(all_, " streams are open here, as many as there may be: try again later"));
  ++open_[client];
  ++all_;
  return Slot(*this, client);
}

void StreamQuota::Close(const std::string& client) {
  MutexLock lock(mutex_);
  --all_;
  if (--open_[client] == 0) open_.erase(client);
}

}  // namespace medley
