#pragma once
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "comm/transport/transport.h"
#include "runtime/base/status_macros.h"

namespace medley {

// Some ranks tell one another something of one size. All of them make one, with the same arguments, and
// finish it. Errors: of the transport, with `what` and the rank: "exchanging staging terms with rank 2: ...".
class ByteExchange {
 public:
  // Listens from now on. `ranks`: this one among them.
  ByteExchange(Transport& transport, absl::Span<const int> ranks, MessageTag tag, size_t size_bytes,
               std::string what);

  // What the others have told so far; nothing of those that have not, nor of this rank. Does not block.
  absl::StatusOr<std::vector<std::string>> Heard();

  // Tells the others `own`, of the size. Blocks until all have; returns what all told, in the order of `ranks`.
  absl::StatusOr<std::vector<std::string>> Finish(const std::string& own, absl::Time deadline);

 private:
  absl::Status Wait(Transfer* transfer, int rank, absl::Time deadline) const;

  Transport& transport_;
  const std::vector<int> ranks_;
  const MessageTag tag_;
  const std::string what_;
  std::string own_;
  std::vector<std::string> told_;  // by place, as all below
  absl::Status listening_;
  std::vector<std::unique_ptr<Transfer>> receives_, sends_;  // null: of this rank
};

// At once.
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
