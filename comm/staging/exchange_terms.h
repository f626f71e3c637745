#pragma once
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/staging/staging_terms.h"
#include "comm/transport/transport.h"

namespace medley {

// Tells every rank this one's terms and returns those of all, by rank. All ranks call it, once, before the
// first device message. Errors: of the transport, with the rank; InvalidArgument: a rank's terms are
// malformed; names it.
absl::StatusOr<std::vector<StagingTerms>> ExchangeTerms(Transport& transport, const StagingTerms& own,
                                                        absl::Time deadline);

}  // namespace medley
