#include "comm/staging/exchange_terms.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// A tag of a probe's kind, on a channel that probes do not use.
constexpr MessageTag kTag{.kind = MessageTag::Kind::kProbe, .channel = 1};

}  // namespace

absl::StatusOr<std::vector<StagingTerms>> ExchangeTerms(Transport& transport, const StagingTerms& own,
                                                        absl::Time deadline) {
  const std::string mine = EncodeTerms(own);
  std::vector<std::string> received(transport.size(), mine);
  std::vector<std::unique_ptr<Transfer>> receives(transport.size()), sends(transport.size());
  const auto bytes = [](const std::string& text) {
    return absl::Span<const std::byte>(reinterpret_cast<const std::byte*>(text.data()), text.size());
  };
  for (int rank = 0; rank < transport.size(); ++rank) {
    if (rank == transport.rank()) continue;
    const absl::Span<std::byte> into(reinterpret_cast<std::byte*>(received[rank].data()),
                                     received[rank].size());
    ASSIGN_OR_RETURN(receives[rank], transport.Receive(rank, kTag, into));
    ASSIGN_OR_RETURN(sends[rank], transport.Send(rank, kTag, bytes(mine)));
  }
  std::vector<StagingTerms> terms;
  for (int rank = 0; rank < transport.size(); ++rank) {
    const std::string where = absl::StrCat("exchanging staging terms with rank ", rank);
    if (receives[rank] != nullptr) RETURN_IF_ERROR(Annotate(receives[rank]->Wait(deadline), where));
    if (sends[rank] != nullptr) RETURN_IF_ERROR(Annotate(sends[rank]->Wait(deadline), where));
    const absl::StatusOr<StagingTerms> decoded = DecodeTerms(received[rank]);
    if (!decoded.ok()) return Annotate(decoded.status(), where);
    terms.push_back(*decoded);
  }
  return terms;
}

}  // namespace medley
