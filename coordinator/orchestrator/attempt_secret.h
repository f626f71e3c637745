#pragma once
#include <string>

#include "absl/status/statusor.h"

namespace medley {

// 32 random bytes by which the members of one attempt recognise each other; fresh with every call, from the
// kernel. They go into requests to agents and nowhere else: not into a log, a message, an answer or the
// store. Unavailable: the kernel gives no random bytes, with its reason.
absl::StatusOr<std::string> NewAttemptSecret();

}  // namespace medley
