#include "comm/group/exchange_facts.h"

#include "comm/transport/exchange_bytes.h"

namespace medley {
namespace {

// A tag of a probe's kind, on a channel that probes do not use.
constexpr MessageTag kTag{.kind = MessageTag::Kind::kProbe, .channel = 5};
constexpr char kWhat[] = "exchanging what devices are";

}  // namespace

absl::StatusOr<std::vector<GroupFacts>> ExchangeGroupFacts(Transport& transport, const GroupFacts& own,
                                                           absl::Time deadline) {
  return ExchangeWithAll(transport, kTag, EncodeGroupFacts(own), DecodeGroupFacts, kWhat, deadline);
}

}  // namespace medley
