// What the orchestrator does for `medley links`.
#include <set>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/orchestrator/explain_all_reduce.h"
#include "coordinator/orchestrator/link_table.h"
#include "coordinator/orchestrator/orchestrator.h"
#include "coordinator/orchestrator/protection_terms.h"
#include "runtime/base/some_names.h"
#include "runtime/base/status_macros.h"
#include "runtime/wire/message_protection_codec.h"

namespace medley {

std::vector<std::string> Orchestrator::LiveDevices() {
  std::vector<std::string> devices;
  for (const NodeSnapshot& node : cluster_.Nodes(Time())) {
    if (!node.alive) continue;
    for (const ClusterDevice& device : node.description.devices) {
      devices.push_back(FullName(node.description.name, device));
    }
  }
  return devices;
}

absl::StatusOr<std::vector<ClusterDeviceLocation>> Orchestrator::LocateOrAll(
    const std::vector<std::string>& devices) {
  const std::vector<std::string> live = LiveDevices();
  absl::StatusOr<std::vector<ClusterDeviceLocation>> located = Locate(devices.empty() ? live : devices);
  if (!absl::IsNotFound(located.status())) return located;
  return absl::NotFoundError(
      absl::StrCat(located.status().message(), "; there are ", absl::StrJoin(live, ", ")));
}

MessageProtection Orchestrator::ProtectionOf(v1::MessageProtection asked,
                                             const std::vector<ClusterDeviceLocation>& devices) const {
  return asked == v1::MESSAGE_PROTECTION_UNSPECIFIED ? LeastProtection(options_.message_protection, devices)
                                                     : DecodeMessageProtection(asked);
}

bool Orchestrator::AsksForProtection(const v1::JobSpec& spec) const {
  return options_.message_protection != MessageProtection::kNone ||
         DecodeMessageProtection(spec.communication().message_protection()) != MessageProtection::kNone;
}

absl::StatusOr<Orchestrator::KnownLinks> Orchestrator::LinksAmong(
    const std::vector<ClusterDeviceLocation>& devices, MessageProtection protection) {
  ASSIGN_OR_RETURN(const std::vector<v1::LinkProfile> measured, store_.ListLinks());
  return KnownLinks{devices, LinkTable(measured, protection)};
}

absl::StatusOr<Orchestrator::KnownLinks> Orchestrator::Links(const std::vector<std::string>& devices,
                                                             v1::MessageProtection protection) {
  absl::StatusOr<std::vector<ClusterDeviceLocation>> locations;
  {
    MutexLock lock(mutex_);
    locations = LocateOrAll(devices);
  }
  RETURN_IF_ERROR(locations.status());
  return LinksAmong(*locations, ProtectionOf(protection, *locations));
}

absl::StatusOr<v1::AllReduceExplanation> Orchestrator::ExplainAllReduce(
    const v1::ExplainAllReduceRequest& request) {
  absl::StatusOr<std::vector<ClusterDeviceLocation>> locations;
  {
    MutexLock lock(mutex_);
    locations = LocateOrAll({request.devices().begin(), request.devices().end()});
  }
  RETURN_IF_ERROR(locations.status());
  ASSIGN_OR_RETURN(const std::vector<v1::LinkProfile> measured, store_.ListLinks());
  return medley::ExplainAllReduce(*locations, request.bytes(),
                                  LinkTable(measured, ProtectionOf({}, *locations)));
}

absl::Status Orchestrator::RefuseInUse(const std::vector<ClusterDeviceLocation>& devices) {
  const std::vector<std::string> free = UsableDevices();
  const std::unordered_set<std::string> usable(free.begin(), free.end());
  std::vector<std::string> in_use, drained, away;
  for (const ClusterDeviceLocation& device : devices) {
    if (usable.contains(FullName(device))) continue;
    const std::string node = NodeOf(FullName(device));
    (standing_.IsDrained(node)  ? drained
     : standing_.IsUsable(node) ? in_use
                                : away)
        .push_back(FullName(device));
  }
  std::vector<std::string> why;
  const auto add = [&](const std::vector<std::string>& names, const char* one, const char* several) {
    if (!names.empty()) why.push_back(absl::StrCat(SomeNames(names), names.size() == 1 ? one : several));
  };
  add(in_use, " is in use (`medley nodes` shows by whom)", " are in use (`medley nodes` shows by whom)");
  add(drained, " is of a drained node (`medley undrain` has it used again)",
      " are of drained nodes (`medley undrain` has them used again)");
  add(away, " is of a node whose agent leaves or does not answer",
      " are of nodes whose agents leave or do not answer");
  if (why.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("links are measured between devices that jobs may use and nothing else does, and ",
                   absl::StrJoin(why, ", ")));
}

absl::StatusOr<Orchestrator::KnownLinks> Orchestrator::MeasureLinks(const std::vector<std::string>& devices,
                                                                    v1::MessageProtection protection,
                                                                    const std::function<bool()>& cancelled) {
  std::vector<ClusterDeviceLocation> locations;
  MessageProtection with = MessageProtection::kNone;
  std::string name;
  {
    MutexLock lock(mutex_);
    ASSIGN_OR_RETURN(locations, LocateOrAll(devices));
    std::set<std::string> names;
    for (const ClusterDeviceLocation& device : locations) names.insert(FullName(device));
    if (devices.empty() && locations.size() < 2)
      return absl::FailedPreconditionError(
          locations.empty()
              ? "no agent is registered: there are no links to measure"
              : absl::StrCat("there are no links to measure: ", *names.begin(), " is the only device"));
    if (locations.size() < 2 || names.size() < locations.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("devices: ", absl::StrJoin(names, ", "), ": a link takes two different ones"));
    }
    with = ProtectionOf(protection, locations);
    v1::JobSpec asked;
    asked.mutable_communication()->set_message_protection(EncodeMessageProtection(with));
    RETURN_IF_ERROR(WithProtection(asked, MessageProtection::kNone, locations).status());
    RETURN_IF_ERROR(RefuseInUse(locations));
    name = absl::StrCat("(measuring links ", ++dry_runs_, ")");
    RETURN_IF_ERROR(cluster_.Occupy(std::vector<std::string>(names.begin(), names.end()), name));
  }
  JobRunner runner(Services(), name, locations);
  absl::Status measured;
  Serve(
      name, runner, [&] { measured = runner.RefreshLinks(with); }, cancelled);
  RETURN_IF_ERROR(measured);
  return LinksAmong(locations, with);
}

}  // namespace medley
