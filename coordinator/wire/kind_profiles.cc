#include "coordinator/wire/kind_profiles.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/problem/planning_problem.h"
#include "coordinator/roofline/kind_profile.h"
#include "coordinator/wire/device_kind_codec.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/model/model_share.h"

namespace medley {
namespace {

// No data sheet says it: of a message between devices of a node.
constexpr double kNodeLatencySeconds = 1e-5;

absl::Status CheckDirectory(const std::string& directory) {
  std::error_code error;
  if (std::filesystem::is_directory(directory, error)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--kinds: \"", directory, "\" is not a directory"));
}

// Those of the names that `kind` may mean: it itself, or the same in another case, or those that begin with it and a dash.
std::vector<std::string> MeantBy(const std::string& kind, const std::set<std::string>& names) {
  if (names.contains(kind)) return {kind};
  std::vector<std::string> same, longer;
  for (const std::string& name : names) {
    if (absl::EqualsIgnoreCase(name, kind)) same.push_back(name);
    if (absl::StartsWithIgnoreCase(name, kind + "-")) longer.push_back(name);
  }
  return same.empty() ? longer : same;
}

int MostOnNode(const Cluster& cluster, const std::string& kind) {
  std::ptrdiff_t most = 0;
  for (const ClusterNode& node : cluster.nodes) {
    most = std::max(most, std::count_if(node.devices.begin(), node.devices.end(),
                                        [&](const ClusterDevice& device) { return device.kind == kind; }));
  }
  return static_cast<int>(most);
}

// That so many devices of a node may have of the width of blocks, in twos, fours and so on.
std::vector<ModelShare> SharesOnNode(const ModelConfig& model, int most_devices) {
  std::vector<ModelShare> shares;
  for (int degree = 2; degree <= most_devices; degree *= 2) {
    if (!SharingObjection(model, degree).empty()) continue;
    for (const ModelShare& share : EvenShares(model, degree)) {
      const ModelShare at_origin = AtOrigin(share);
      if (std::find(shares.begin(), shares.end(), at_origin) == shares.end()) shares.push_back(at_origin);
    }
  }
  return shares;
}

struct FoundKind {
  MissingProfile missing;
  DeviceKindProfile kind;
};

// That a file has what a profile is made of.
absl::Status CheckSays(const DeviceKindProfile& kind, Precision precision, const std::string& path) {
  if (kind.by_software.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": calibrations: there are none; at least one is needed"));
  }
  const bool in_f32 = kind.figures.computes.For(precision) == Precision::kF32;
  if (in_f32 && kind.figures.matmul_f32_flops_per_second == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": matmul_f32_flops_per_second: 0 is not positive, and devices of that kind compute ",
        "this job, of precision ", std::string(NameOf(precision)), ", in f32"));
  }
  return absl::OkStatus();
}

// The one that most kinds were measured with, and of these the one with the most rows.
const std::pair<const std::string, DeviceKindProfile::Learnt>& SoftwareOf(
    const DeviceKindProfile& kind, const std::vector<FoundKind>& kinds) {
  const auto worth = [&](const auto& software) {
    const auto has = [&](const FoundKind& of) { return of.kind.by_software.contains(software.first); };
    return std::pair(std::count_if(kinds.begin(), kinds.end(), has), software.second.rows);
  };
  return *std::max_element(kind.by_software.begin(), kind.by_software.end(),
                           [&](const auto& a, const auto& b) { return worth(a) < worth(b); });
}

}  // namespace

absl::Status AddKindProfiles(const std::string& directory, const TrainingSpec& spec,
                             const JobConstraints& constraints, Cluster& cluster,
                             const std::optional<std::set<std::string>>& only) {
  RETURN_IF_ERROR(CheckDirectory(directory));
  ASSIGN_OR_RETURN(const std::vector<MissingProfile> missing, MissingProfiles(spec, constraints, cluster));
  std::vector<FoundKind> found;
  for (const MissingProfile& profile : missing) {
    if (only && !only->contains(profile.device_kind)) continue;
    if (profile.share || absl::StrContains(profile.device_kind, '/')) continue;
    const std::string path = absl::StrCat(directory, "/", profile.device_kind, ".yaml");
    std::error_code error;
    if (!std::filesystem::exists(path, error)) continue;
    ASSIGN_OR_RETURN(DeviceKindProfile kind, ReadDeviceKind(path));
    RETURN_IF_ERROR(CheckSays(kind, spec.precision, path));
    found.push_back({profile, std::move(kind)});
  }
  for (const FoundKind& of : found) {
    const auto& [software, learnt] = SoftwareOf(of.kind, found);
    const auto add = [&](const TrainingSpec& training) {
      cluster.profiles.push_back(
          KindProfile({of.kind.figures, learnt.calibration}, software, PredictionBasis::kOtherShapes,
                      training.shape, training.precision, ShapeKey(training), of.missing.micro_batch_sizes));
      // The file may be of another spelling of the kind.
      cluster.profiles.back().device_kind = of.missing.device_kind;
    };
    add(spec);
    for (const ModelShare& share :
         SharesOnNode(spec.shape.model, MostOnNode(cluster, of.missing.device_kind)))
      add(WithShare(spec, share));
    for (ClusterNode& node : cluster.nodes) {
      for (ClusterDevice& device : node.devices)
        if (device.kind == of.missing.device_kind) device.computes = of.kind.figures.computes;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<KindSheet> ReadKindSheet(const std::string& directory, const std::string& kind) {
  RETURN_IF_ERROR(CheckDirectory(directory));
  std::error_code error;
  std::set<std::string> there;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error))
    if (entry.path().extension() == ".yaml") there.insert(entry.path().stem());
  const std::vector<std::string> meant = MeantBy(kind, there);
  if (meant.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("kind: \"", kind, "\" may be ", absl::StrJoin(meant, ", "), "; name one of them"));
  }
  if (meant.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("kind: no device is a \"", kind, "\", and ", directory,
                                                   " has no file of it; there are ",
                                                   absl::StrJoin(there, ", ")));
  }
  ASSIGN_OR_RETURN(const DeviceKindProfile read,
                   ReadDeviceKind(absl::StrCat(directory, "/", meant.front(), ".yaml")));
  KindSheet sheet;
  sheet.device.kind = meant.front();
  sheet.device.description = {.name = "gpu", .backend = "gpu", .memory_limit = read.figures.memory};
  sheet.device.computes = read.figures.computes;
  const LinkModel link = LinkModel::Line(kNodeLatencySeconds, read.figures.node_link_bytes_per_second);
  sheet.link_of_node = {link, link};
  return sheet;
}

}  // namespace medley
