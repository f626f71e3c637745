#include "comm/staging/exchange_terms.h"

#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "comm/transport/exchange_bytes.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// A tag of a probe's kind, on a channel that probes do not use.
constexpr MessageTag kTag{.kind = MessageTag::Kind::kProbe, .channel = 1};
constexpr char kWhat[] = "exchanging staging terms";

}  // namespace

absl::StatusOr<std::vector<StagingTerms>> ExchangeTerms(Transport& transport, const StagingTerms& own,
                                                        absl::Time deadline) {
  std::vector<int> ranks(transport.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  ASSIGN_OR_RETURN(const std::vector<std::string> told,
                   ExchangeBytes(transport, ranks, kTag, EncodeTerms(own), kWhat, deadline));
  std::vector<StagingTerms> terms;
  for (const int rank : ranks) {
    const absl::StatusOr<StagingTerms> decoded = DecodeTerms(told[rank]);
    if (!decoded.ok()) return Annotate(decoded.status(), absl::StrCat(kWhat, " with rank ", rank));
    terms.push_back(*decoded);
  }
  return terms;
}

}  // namespace medley
