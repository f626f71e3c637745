#pragma once
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/medley/v1/agent.pb.h"
#include "runtime/ir/link/message_protection.h"

namespace medley {

// Whether an agent may take a task on: the rules of the message, and what must hold between its fields. Never
// says more of the attempt's secret than its length. `allowed_directories`: CheckJobPaths. `least_protection`: of messages of tasks
// with peers. InvalidArgument: the field, its value and what is allowed.
absl::Status CheckPrepare(const v1::PrepareRequest& request,
                          const std::vector<std::string>& allowed_directories = {},
                          MessageProtection least_protection = MessageProtection::kNone);

}  // namespace medley
