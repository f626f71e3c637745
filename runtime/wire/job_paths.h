#pragma once
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "proto/medley/v1/job.pb.h"

namespace medley {

using NamedPath = std::pair<std::string, std::string>;  // its field, and itself; "" where it is not given

// All files and directories that a job names. One that is forgotten here is checked by nobody.
std::vector<NamedPath> PathsOf(const v1::JobSpec& spec);

// Whether all files and directories that a job names, and `further` ones beside them ("field", path), lie in one of `allowed`, whatever links
// lead there. Empty `allowed`: everything is. InvalidArgument: the field, the path and what is allowed.
absl::Status CheckJobPaths(const v1::JobSpec& spec, const std::vector<std::string>& allowed,
                           const std::vector<NamedPath>& further = {});

}  // namespace medley
