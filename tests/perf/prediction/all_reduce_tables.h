#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/ir/link/link_model.h"

namespace medley {

// vTrain's tables of measured all-reduces in `folder`, "AR_GPU2_1M_1024M_LUT" for two devices and so on up to eight, as far as they are
// there: those in place, thinned out and made not to fall. NotFound: there is none. InvalidArgument "FILE...": a row without a
// size and a time.
absl::StatusOr<std::vector<AllReduceTimes>> ReadAllReduceTables(const std::string& folder);

}  // namespace medley
