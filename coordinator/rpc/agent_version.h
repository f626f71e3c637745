#pragma once
#include <string>

#include "absl/status/status.h"

namespace medley {

// Whether an agent of Medley `agent` ("0.2") may work for a coordinator of `coordinator`: of the same major version, and at most one minor
// version older or newer, so that a cluster is upgraded node by node. Agents before 0.3 did not say theirs.
// FailedPrecondition: no, names both and what to do; or the agent's is no version.
absl::Status CheckAgentVersion(const std::string& agent, const std::string& coordinator);

}  // namespace medley
