#pragma once
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/medley/v1/job.pb.h"

namespace medley {

// Whether all files and directories that a job names, and `further` ones beside them ("field", path), lie in one of `allowed`, whatever links
// lead there. Empty `allowed`: everything is. InvalidArgument: the field, the path and what is allowed.
absl::Status CheckJobPaths(const v1::JobSpec& spec, const std::vector<std::string>& allowed,
                           const std::vector<std::pair<std::string, std::string>>& further = {});

}  // namespace medley
