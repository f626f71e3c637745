#include "comm/transport/exchange_bytes.h"

#include <algorithm>
#include <cstddef>

#include "comm/transport/message_round.h"
#include "runtime/ir/collective/scalar_tree.h"

namespace medley {
namespace {

// One rank's part of it, at its place among the ranks.
class TreeExchange {
 public:
  TreeExchange(Transport& transport, absl::Span<const int> ranks, MessageTag tag, const std::string& own,
               const std::string& what)
      : ranks_(ranks),
        tree_(static_cast<int>(ranks.size())),
        place_(static_cast<int>(std::find(ranks.begin(), ranks.end(), transport.rank()) - ranks.begin())),
        size_bytes_(own.size()),
        all_(ranks.size() * own.size(), '\0'),
        round_(transport, tag, what) {
    std::copy(own.begin(), own.end(), all_.begin() + place_ * own.size());
  }

  absl::Status Run(absl::Time deadline) {
    int level = 0;
    for (; level < tree_.levels() && tree_.TakesPart(level + 1, place_); ++level) {
      RETURN_IF_ERROR(ReceiveOthers(level));
      RETURN_IF_ERROR(round_.Await(deadline));
    }
    if (level == tree_.levels()) {
      RETURN_IF_ERROR(ReceiveOthers(level));
      RETURN_IF_ERROR(SendOthers(level, KnownAt(level, place_)));
    } else {
      const int first = ranks_[tree_.GroupOf(level, place_).front()];
      RETURN_IF_ERROR(round_.Send(first, KnownAt(level, place_)));
      RETURN_IF_ERROR(round_.Await(deadline));  // all comes over it
      RETURN_IF_ERROR(round_.Receive(first, All()));
    }
    RETURN_IF_ERROR(round_.Await(deadline));
    while (level-- > 0) RETURN_IF_ERROR(SendOthers(level, All()));
    return round_.Await(deadline);
  }

  std::vector<std::string> Told() const {
    std::vector<std::string> told;
    for (size_t i = 0; i < ranks_.size(); ++i) told.push_back(all_.substr(i * size_bytes_, size_bytes_));
    return told;
  }

 private:
  absl::Span<std::byte> All() { return {reinterpret_cast<std::byte*>(all_.data()), all_.size()}; }
  // What `place` knows when the groups of `level` meet.
  absl::Span<std::byte> KnownAt(int level, int place) {
    return All().subspan(place * size_bytes_, (tree_.EndOf(level, place) - place) * size_bytes_);
  }
  absl::Status ReceiveOthers(int level) {
    for (const int other : tree_.GroupOf(level, place_)) {
      if (other != place_) RETURN_IF_ERROR(round_.Receive(ranks_[other], KnownAt(level, other)));
    }
    return absl::OkStatus();
  }
  absl::Status SendOthers(int level, absl::Span<const std::byte> bytes) {
    for (const int other : tree_.GroupOf(level, place_)) {
      if (other != place_) RETURN_IF_ERROR(round_.Send(ranks_[other], bytes));
    }
    return absl::OkStatus();
  }

  const absl::Span<const int> ranks_;
  const ScalarTree tree_;
  const int place_;
  const size_t size_bytes_;
  std::string all_;
  MessageRound round_;  // after the bytes
};

}  // namespace

absl::StatusOr<std::vector<std::string>> ExchangeBytes(Transport& transport, absl::Span<const int> ranks,
                                                       MessageTag tag, const std::string& own,
                                                       const std::string& what, absl::Time deadline) {
  TreeExchange exchange(transport, ranks, tag, own, what);
  RETURN_IF_ERROR(exchange.Run(deadline));
  return exchange.Told();
}

}  // namespace medley
