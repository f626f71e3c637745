#pragma once
#include <string>

#include "absl/status/status.h"

namespace medley {

// Whether a server could listen now at `address`, "HOST:PORT", which is tried and left free again; of a name that is
// several addresses, at one of them. Unavailable "FIELD: cannot listen at HOST:PORT: why", in the system's words: in use,
// not this machine's, not allowed, a name that is not known.
absl::Status CheckCanListen(const std::string& field, const std::string& address);

// The same of an address where a server has just failed to listen, and never OK.
absl::Status CannotListen(const std::string& field, const std::string& address);

}  // namespace medley
