#pragma once
#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/medley/v1/config.pb.h"

namespace medley {

// Whether an agent is to join before it can serve: `join_token_file` is set, and the certificate that `tls` names is not there, or not in
// force any more.
bool NeedsToJoin(const v1::AgentConfig& config);

// Whether it can be tried. InvalidArgument: `join_token_file` is set without `tls`; or the agent needs to join, and the file is none or
// holds no token, or `tls` lacks a path.
absl::Status CheckJoining(const v1::AgentConfig& config);

// Makes the files that `tls` names: a key, which is made here and does not leave, if there is none yet; and what the coordinator answers to
// the token, the certificate last. That the files can be written is found out before the token is shown. A coordinator that cannot be
// reached is asked again until it can; one that is signed by another authority than the token says is not shown the token.
// `is_stopped_within` waits so long, and says whether the agent is to stop.
// Cancelled: it is. InvalidArgument: as CheckJoining, or the token is refused. FailedPrecondition: it is another coordinator, or one that
// does not let agents join; or a file cannot be written or read.
absl::Status JoinCoordinator(const v1::AgentConfig& config,
                             const std::function<bool(absl::Duration)>& is_stopped_within);

}  // namespace medley
