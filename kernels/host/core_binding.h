#pragma once
#include <vector>

#include "absl/status/status.h"

namespace medley {

// Whether `cores` names one or more cores of this machine, each once. InvalidArgument: what is wrong, naming the
// core.
absl::Status CheckCores(const std::vector<int>& cores);

// Lets the calling thread, and those it starts from now on, run on `cores` only.
// InvalidArgument: as CheckCores, or a core that this process may not use.
absl::Status BindThread(const std::vector<int>& cores);

// BindThread for every thread of this process.
absl::Status BindProcess(const std::vector<int>& cores);

}  // namespace medley
