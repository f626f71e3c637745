#include "comm/group/exchange_facts.h"

#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "comm/transport/exchange_bytes.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// A tag of a probe's kind, on a channel that probes do not use.
constexpr MessageTag kTag{.kind = MessageTag::Kind::kProbe, .channel = 5};
constexpr char kWhat[] = "exchanging what devices are";

}  // namespace

absl::StatusOr<std::vector<GroupFacts>> ExchangeGroupFacts(Transport& transport, const GroupFacts& own,
                                                           absl::Time deadline) {
  std::vector<int> ranks(transport.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  ASSIGN_OR_RETURN(const std::vector<std::string> told,
                   ExchangeBytes(transport, ranks, kTag, EncodeGroupFacts(own), kWhat, deadline));
  std::vector<GroupFacts> facts;
  for (const int rank : ranks) {
    const absl::StatusOr<GroupFacts> decoded = DecodeGroupFacts(told[rank]);
    if (!decoded.ok()) return Annotate(decoded.status(), absl::StrCat(kWhat, " with rank ", rank));
    facts.push_back(*decoded);
  }
  return facts;
}

}  // namespace medley
