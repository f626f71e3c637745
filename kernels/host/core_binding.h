#pragma once
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace medley {

// Empty if `cores` names one or more cores of this machine, each once; otherwise what is wrong, naming the
// core.
std::string CoresObjection(const std::vector<int>& cores);

// Lets the calling thread, and those it starts from now on, run on `cores` only.
// InvalidArgument: CoresObjection, or a core that this process may not use.
absl::Status BindThread(const std::vector<int>& cores);

// BindThread for every thread of this process.
absl::Status BindProcess(const std::vector<int>& cores);

}  // namespace medley
