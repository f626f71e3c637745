#include "coordinator/wire/kind_profiles.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/problem/planning_problem.h"
#include "coordinator/roofline/kind_profile.h"
#include "coordinator/wire/device_kind_codec.h"
#include "runtime/base/status_macros.h"

namespace medley {

absl::Status AddKindProfiles(const std::string& directory, const TrainingSpec& spec,
                             const JobConstraints& constraints, Cluster& cluster) {
  std::error_code error;
  if (!std::filesystem::is_directory(directory, error))
    return absl::NotFoundError(absl::StrCat("--kinds: \"", directory, "\" is not a directory"));
  ASSIGN_OR_RETURN(const std::vector<MissingProfile> missing, MissingProfiles(spec, constraints, cluster));
  for (const MissingProfile& profile : missing) {
    if (profile.share || absl::StrContains(profile.device_kind, '/')) continue;
    const std::string path = absl::StrCat(directory, "/", profile.device_kind, ".yaml");
    if (!std::filesystem::exists(path, error)) continue;
    ASSIGN_OR_RETURN(const DeviceKindProfile kind, ReadDeviceKind(path));
    const auto most =
        std::max_element(kind.by_software.begin(), kind.by_software.end(),
                         [](const auto& a, const auto& b) { return a.second.rows < b.second.rows; });
    if (most == kind.by_software.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": calibrations: there are none; at least one is needed"));
    }
    cluster.profiles.push_back(KindProfile({kind.figures, most->second.calibration}, most->first,
                                           PredictionBasis::kOtherShapes, spec.shape, ShapeKey(spec),
                                           profile.micro_batch_sizes));
    // The file may be of another spelling of the kind.
    cluster.profiles.back().device_kind = profile.device_kind;
  }
  return absl::OkStatus();
}

}  // namespace medley
