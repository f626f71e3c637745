#include "comm/session/dialer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace medley {

Dialer::Dialer(int rank, std::vector<Endpoint> endpoints) : rank_(rank), endpoints_(std::move(endpoints)) {
  if (endpoints_.empty()) {
    verdict_ = absl::UnavailableError(absl::StrCat(
        "rank ", rank, " cannot be reached: it listens on loopback alone, and is on another host"));
  }
}

std::optional<Endpoint> Dialer::Next(absl::Duration now) {
  if (is_trying_ || !verdict_.ok() || now < due_at_) return std::nullopt;
  is_trying_ = true;
  return endpoints_[next_];
}

void Dialer::Failed(const absl::Status& why, absl::Duration now) {
  is_trying_ = false;
  last_failure_ = absl::StrCat(why.message(), " at ", endpoints_[next_].ToString());
  reasons_.push_back(last_failure_);
  if (absl::IsPermissionDenied(why) && denied_.ok()) denied_ = why;
  if (absl::IsDeadlineExceeded(why) || absl::IsAborted(why)) may_improve_ = true;
  if (!hopeless_since_) hopeless_since_ = now;
  if (++next_ == endpoints_.size()) EndRound(now);
}

void Dialer::EndRound(absl::Duration now) {
  if (!denied_.ok()) {
    verdict_ = denied_;
  } else if (may_improve_) {
    hopeless_since_.reset();
  } else if (now - *hopeless_since_ >= kPatience) {
    verdict_ = absl::UnavailableError(
        absl::StrCat("rank ", rank_, " cannot be reached: ", absl::StrJoin(reasons_, "; ")));
  }
  next_ = 0;
  due_at_ = now + kPause;
  reasons_.clear();
  may_improve_ = false;
}

}  // namespace medley
