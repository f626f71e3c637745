#pragma once
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "comm/transport/transport.h"
#include "runtime/base/status_macros.h"

namespace medley {

// What each of `ranks`, this one among them, tells all of them, in their order. All call it with as many bytes, and block
// until all have. Who gives whom is ScalarTree's (runtime/ir/collective), so that a rank exchanges messages with few.
// Errors: of the transport, with `what` and the rank: "exchanging staging terms with rank 2: ...".
absl::StatusOr<std::vector<std::string>> ExchangeBytes(Transport& transport, absl::Span<const int> ranks,
                                                       MessageTag tag, const std::string& own,
                                                       const std::string& what, absl::Time deadline);

// What every rank of `transport` tells, by rank, as `decode` understands it: absl::StatusOr<T>(const std::string&).
// Errors, beside: of `decode`, with `what` and the rank.
template <typename Decode>
auto ExchangeWithAll(Transport& transport, MessageTag tag, const std::string& own, const Decode& decode,
                     const std::string& what, absl::Time deadline)
    -> absl::StatusOr<std::vector<typename decltype(decode(own))::value_type>> {
  std::vector<int> ranks(transport.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  ASSIGN_OR_RETURN(const std::vector<std::string> told,
                   ExchangeBytes(transport, ranks, tag, own, what, deadline));
  std::vector<typename decltype(decode(own))::value_type> all;
  for (const int rank : ranks) {
    auto decoded = decode(told[rank]);
    if (!decoded.ok()) return Annotate(decoded.status(), absl::StrCat(what, " with rank ", rank));
    all.push_back(*std::move(decoded));
  }
  return all;
}

}  // namespace medley
