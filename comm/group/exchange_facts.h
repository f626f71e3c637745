#pragma once
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/transport/transport.h"
#include "runtime/ir/collective/group_facts.h"

namespace medley {

// Tells every rank this one's facts and returns those of all, by rank, each as it was told: texts that were
// cut are so on all ranks. All ranks call it, once. Errors: of the transport, with the rank; InvalidArgument:
// a rank's facts are malformed; names it.
absl::StatusOr<std::vector<GroupFacts>> ExchangeGroupFacts(Transport& transport, const GroupFacts& own,
                                                           absl::Time deadline);

}  // namespace medley
