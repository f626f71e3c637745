#pragma once
#include <cstdint>

#include "comm/reshard/reshard_plan.h"

namespace medley {

// For tests: degrees 1 to 8 by 1 to 8 with ranks out of [0, 16) in any order, either end cut unevenly (pieces
// may be empty) or replicated, up to `maximum_rows` rows.
ReshardProblem RandomReshardProblem(uint64_t seed, int64_t maximum_rows);

}  // namespace medley
