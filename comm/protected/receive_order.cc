#include "comm/protected/receive_order.h"

#include <algorithm>

namespace medley {
namespace {

template <typename Open>
auto Find(Open& open, uint64_t receive) {
  return std::find_if(open.begin(), open.end(), [&](const auto& one) { return one.first == receive; });
}

}  // namespace

uint64_t ReceiveOrder::Post() {
  open_.emplace_back(posted_, next_++);
  return posted_++;
}

uint64_t ReceiveOrder::Due(uint64_t receive) const { return Find(open_, receive)->second; }

void ReceiveOrder::Take(uint64_t receive) { open_.erase(Find(open_, receive)); }

void ReceiveOrder::Cancel(uint64_t receive) {
  for (auto later = open_.erase(Find(open_, receive)); later != open_.end(); ++later) --later->second;
  --next_;
}

}  // namespace medley
