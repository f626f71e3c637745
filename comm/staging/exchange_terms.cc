#include "comm/staging/exchange_terms.h"

#include "comm/transport/exchange_bytes.h"

namespace medley {
namespace {

// A tag of a probe's kind, on a channel that probes do not use.
constexpr MessageTag kTag{.kind = MessageTag::Kind::kProbe, .channel = 1};
constexpr char kWhat[] = "exchanging staging terms";

}  // namespace

absl::StatusOr<std::vector<StagingTerms>> ExchangeTerms(Transport& transport, const StagingTerms& own,
                                                        absl::Time deadline) {
  return ExchangeWithAll(transport, kTag, EncodeTerms(own), DecodeTerms, kWhat, deadline);
}

}  // namespace medley
