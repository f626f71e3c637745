#pragma once
#include <ucs/type/status.h>

#include <string>

#include "absl/status/status.h"

namespace medley {

// Maps a UCX status to ours, as "doing: UCX's words"; the only place that knows both.
absl::Status FromUcs(ucs_status_t status, const std::string& doing);

}  // namespace medley
