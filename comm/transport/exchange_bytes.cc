#include "comm/transport/exchange_bytes.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {

ByteExchange::ByteExchange(Transport& transport, absl::Span<const int> ranks, MessageTag tag,
                           size_t size_bytes, std::string what)
    : transport_(transport),
      ranks_(ranks.begin(), ranks.end()),
      tag_(tag),
      what_(std::move(what)),
      told_(ranks.size(), std::string(size_bytes, '\0')),
      receives_(ranks.size()),
      sends_(ranks.size()) {
  for (size_t i = 0; i < ranks_.size() && listening_.ok(); ++i) {
    if (ranks_[i] == transport_.rank()) continue;
    auto receive =
        transport_.Receive(ranks_[i], tag_, {reinterpret_cast<std::byte*>(told_[i].data()), size_bytes});
    listening_ = receive.status();
    if (receive.ok()) receives_[i] = *std::move(receive);
  }
}

absl::Status ByteExchange::Wait(Transfer* transfer, int rank, absl::Time deadline) const {
  if (transfer == nullptr) return absl::OkStatus();
  return Annotate(transfer->Wait(deadline), absl::StrCat(what_, " with rank ", rank));
}

absl::StatusOr<std::vector<std::string>> ByteExchange::Heard() {
  RETURN_IF_ERROR(listening_);
  std::vector<std::string> heard;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (receives_[i] == nullptr || !receives_[i]->Done()) continue;
    RETURN_IF_ERROR(Wait(receives_[i].get(), ranks_[i], absl::InfiniteFuture()));
    heard.push_back(told_[i]);
  }
  return heard;
}

absl::StatusOr<std::vector<std::string>> ByteExchange::Finish(const std::string& own, absl::Time deadline) {
  RETURN_IF_ERROR(listening_);
  own_ = own;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i] == transport_.rank()) {
      told_[i] = own;
      continue;
    }
    ASSIGN_OR_RETURN(
        sends_[i],
        transport_.Send(ranks_[i], tag_, {reinterpret_cast<const std::byte*>(own_.data()), own_.size()}));
  }
  for (size_t i = 0; i < ranks_.size(); ++i) {
    RETURN_IF_ERROR(Wait(receives_[i].get(), ranks_[i], deadline));
    RETURN_IF_ERROR(Wait(sends_[i].get(), ranks_[i], deadline));
  }
  return told_;
}

absl::StatusOr<std::vector<std::string>> ExchangeBytes(Transport& transport, absl::Span<const int> ranks,
                                                       MessageTag tag, const std::string& own,
                                                       const std::string& what, absl::Time deadline) {
  return ByteExchange(transport, ranks, tag, own.size(), what).Finish(own, deadline);
}

}  // namespace medley
