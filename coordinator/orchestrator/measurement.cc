#include "coordinator/orchestrator/measurement.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/orchestrator/alike_links.h"
#include "coordinator/orchestrator/slowdown_measurement.h"
#include "coordinator/problem/planning_problem.h"
#include "coordinator/problem/profile_change.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status_macros.h"
#include "runtime/wire/cluster_codec.h"
#include "runtime/wire/job_codec.h"
#include "runtime/wire/validate.h"

namespace medley {
namespace {

AttemptEnd Failed(const absl::Status& status) { return {.status = status}; }

// Whether what could not be measured so is the device's or its software's, and not a loss of either.
bool MayPassOver(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kInternal:
      return true;
    default:
      return false;
  }
}

// The devices as nodes, without measurements.
Cluster NodesOf(const std::vector<ClusterDeviceLocation>& devices) {
  std::map<std::string, ClusterNode> nodes;
  for (const ClusterDeviceLocation& location : devices) {
    ClusterNode& node = nodes[location.node];
    node.name = location.node;
    node.host = location.host;
    node.host_memory = location.host_memory;
    node.site = location.site;
    node.rack = location.rack;
    node.network_cards = location.network_cards;
    node.devices.push_back(location.device);
  }
  Cluster cluster;
  for (auto& [name, node] : nodes) cluster.nodes.push_back(std::move(node));
  return cluster;
}

// "a/cpu0 on host rack1, Intel(R) Xeon(R) Processor, oneDNN 2.6.3, Medley 0.2"
std::string ProvenanceLine(const Provenance& with) {
  std::vector<std::string> parts = {with.host.empty() ? with.device
                                                      : absl::StrCat(with.device, " on host ", with.host)};
  for (const std::string& part : {with.hardware, with.driver}) {
    if (!part.empty()) parts.push_back(part);
  }
  parts.insert(parts.end(), with.libraries.begin(), with.libraries.end());
  if (!with.medley_version.empty()) parts.push_back(absl::StrCat("Medley ", with.medley_version));
  return absl::StrJoin(parts, ", ");
}

// A worker's figures are not believed unseen: plans are made of them.
absl::Status CheckMeasured(const v1::DeviceProfile& profile, const ClusterDeviceLocation& device) {
  absl::Status sound = ValidateMessage(profile);
  if (sound.ok() && profile.device_kind() != device.device.kind) {
    sound = absl::InvalidArgumentError(absl::StrCat("device_kind: \"", profile.device_kind(),
                                                    "\" is not the device's, \"", device.device.kind, "\""));
  }
  if (sound.ok()) return sound;
  return absl::InternalError(
      absl::StrCat(FullName(device), ": the profile that was measured: ", sound.message()));
}

}  // namespace

Measurement::Profiled Measurement::ProfileOnce(const MeasurementRequest& request,
                                               const ClusterDeviceLocation& device, const Passes& passes) {
  const absl::StatusOr<uint64_t> attempt = store_.NextAttempt();
  if (!attempt.ok()) return {EndOfStore(attempt.status()), {}};
  AttemptTask task = TaskOn(device, absl::StrCat("profile/", *attempt), *attempt);
  *task.request.mutable_profile()->mutable_spec() = request.spec;
  for (const int size : passes.micro_batch_sizes) task.request.mutable_profile()->add_micro_batch_sizes(size);
  if (passes.share) {
    v1::ModelShare& share = *task.request.mutable_profile()->mutable_share();
    share.set_key_value_heads(passes.share->key_value_heads.size());
    share.set_query_heads(passes.share->query_heads.size());
    share.set_feed_forward(passes.share->feed_forward.size());
    share.set_vocabulary(passes.share->vocabulary.size());
  }
  Mutex mutex;
  std::optional<v1::DeviceProfile> measured;
  AttemptEnd end = run_({task}, {.event = [&](int, const v1::WorkerEvent& event) {
                          MutexLock lock(mutex);
                          if (event.has_profile()) measured = event.profile();
                        }});
  if (!end.status.ok()) return {.end = std::move(end)};
  if (!measured)
    return {.end = Failed(absl::InternalError(absl::StrCat(FullName(device), " ended without a profile")))};
  measured->set_shape(ShapeKey(passes.share ? WithShare(request.training, *passes.share) : request.training));
  if (const absl::Status sound = CheckMeasured(*measured, device); !sound.ok()) return {.end = Failed(sound)};
  DeviceProfile profile = DecodeProfile(*measured);
  if (!profile.measured_with) profile.measured_with.emplace();
  profile.measured_with->device = FullName(device);
  profile.provenance = ProvenanceLine(*profile.measured_with);
  return {.profile = std::move(profile), .matmul_flops_per_second = measured->matmul_flops_per_second()};
}

AttemptEnd Measurement::Profile(const MeasurementRequest& request, const ClusterDeviceLocation& device,
                                const Passes& passes) {
  Profiled profiled = ProfileOnce(request, device, passes);
  if (!profiled.end.status.ok()) return std::move(profiled.end);
  const absl::StatusOr<v1::DeviceProfile> stored =
      store_.FindProfile(device.device.kind, profiled.profile.shape, {});
  if (stored.ok()) {
    const DeviceProfile before = DecodeProfile(*stored);
    std::vector<ProfileChange> slower = MuchSlower(before, profiled.profile);
    if (!slower.empty()) {
      progress_(absl::StrCat("measuring ", FullName(device), " again: ", slower.front().why));
      Profiled again = ProfileOnce(request, device, passes);
      if (!again.end.status.ok()) return std::move(again.end);
      profiled.profile = FasterOf(std::move(profiled.profile), std::move(again.profile));
      profiled.matmul_flops_per_second =
          std::max(profiled.matmul_flops_per_second, again.matmul_flops_per_second);
      slower = MuchSlower(before, profiled.profile);
    }
    MarkAsDoubtful(slower, profiled.profile);
  } else if (!absl::IsNotFound(stored.status())) {
    return EndOfStore(stored.status());
  }
  for (const ProfiledTimes& times : profiled.profile.times) {
    if (times.doubt.empty()) continue;
    progress_(absl::StrCat("the profile of ", device.device.kind, " is doubtful: ", times.doubt));
  }
  v1::DeviceProfile measured = EncodeProfile(profiled.profile);
  measured.set_matmul_flops_per_second(profiled.matmul_flops_per_second);
  return EndOfStore(store_.PutProfile(measured));
}

Measurement::Result Measurement::Complete(const MeasurementRequest& request) {
  absl::StatusOr<JobConstraints> constraints = DecodeConstraints(request.spec);
  if (!constraints.ok()) return {Failed(constraints.status()), {}};
  constraints->devices.clear();  // those of the request are the ones
  Cluster known;
  if (AttemptEnd read = Known(request, known); !read.status.ok()) return {std::move(read), {}};
  const absl::StatusOr<std::vector<MissingProfile>> missing =
      MissingProfiles(request.training, *constraints, known);
  if (!missing.ok()) return {Failed(missing.status()), {}};
  const std::vector<int> sizes =
      CandidateMicroBatches(*constraints, request.training.shape.global_batch_sequences);
  std::map<std::string, AttemptEnd> too_small;  // by device kind
  for (const MissingProfile& what : *missing) {
    const AttemptEnd end = ProfileMissing(request, what, sizes);
    if (absl::IsResourceExhausted(end.status) && !what.needed) {
      progress_(absl::StrCat(what.device, " has no room for whole blocks: ", end.status.message()));
      continue;
    }
    // A device that cannot even hold one block's smallest micro-batch is no reason to do without the others; but one
    // whose share a plan names is.
    if (absl::IsResourceExhausted(end.status) && !what.share) {
      progress_(absl::StrCat(what.device, " is left out: ", end.status.message()));
      too_small[what.device_kind] = end;
      continue;
    }
    if (!end.status.ok()) return {end, {}};
  }
  std::map<std::string, std::string> why_left_out;  // by device
  for (const ClusterDeviceLocation& device : request.devices) {
    const auto end = too_small.find(device.device.kind);
    if (end != too_small.end()) why_left_out[FullName(device)] = std::string(end->second.status.message());
  }
  Shares shares;
  if (!constraints->plan) {
    shares = MeasureShares(request, *constraints);
    if (!shares.end.status.ok()) return {shares.end, {}};
    for (const std::string& device : shares.usable) {
      if (shares.needed) why_left_out.erase(device);
    }
  }
  MeasurementRequest fitting = request;
  std::erase_if(fitting.devices,
                [&](const auto& device) { return why_left_out.count(FullName(device)) > 0; });
  if (fitting.devices.empty()) return {too_small.begin()->second, {}};
  Result result = MeasureTogether(fitting);
  if (result.end.status.ok() && !shares.needed)
    result.end = MeasureFasterShares(fitting, *constraints, result.cluster);
  for (const ClusterDeviceLocation& device : request.devices) {
    const auto why = why_left_out.find(FullName(device));
    if (why != why_left_out.end()) result.left_out.push_back({why->first, why->second});
  }
  return result;
}

Measurement::Shares Measurement::MeasureShares(const MeasurementRequest& request,
                                               const JobConstraints& constraints) {
  Shares shares;
  std::set<std::pair<std::string, std::string>> tried;  // kind, shape
  for (bool more = true; more;) {
    more = false;
    Cluster known;
    if (AttemptEnd read = Known(request, known); !read.status.ok()) return {.end = std::move(read)};
    const absl::StatusOr<SharingNeeds> needs =
        FindSharingNeeds(request.training, constraints, known, {.stop = request.stop});
    if (!needs.ok()) return {.end = Failed(needs.status())};
    shares.needed = needs->nothing_fits_alone;
    shares.usable = needs->usable;
    for (const MissingProfile& what : needs->missing) {
      const std::string shape = ShapeKey(WithShare(request.training, *what.share));
      if (!tried.emplace(what.device_kind, shape).second) continue;
      more = true;
      const AttemptEnd end =
          ProfileMissing(request, what, what.micro_batch_sizes, ": nothing fits with one device a unit");
      if (MayPassOver(end.status)) {
        progress_(absl::StrCat(what.device, " is not planned with that share: ", end.status.message()));
        continue;
      }
      if (!end.status.ok()) return {.end = end};
    }
  }
  return shares;
}

AttemptEnd Measurement::MeasureFasterShares(const MeasurementRequest& request,
                                            const JobConstraints& constraints, Cluster& known) {
  const absl::StatusOr<std::vector<MissingProfile>> missing =
      MissingFasterShares(request.training, constraints, known);
  if (!missing.ok()) return Failed(missing.status());
  for (const MissingProfile& what : *missing) {
    AttemptEnd end = ProfileMissing(request, what, what.micro_batch_sizes, ": plans may be faster with it");
    if (MayPassOver(end.status)) {
      progress_(absl::StrCat(what.device, " is not planned with that share: ", end.status.message()));
    } else if (!end.status.ok()) {
      return end;
    }
  }
  return missing->empty() ? AttemptEnd{} : Known(request, known);
}

AttemptEnd Measurement::ProfileMissing(const MeasurementRequest& request, const MissingProfile& what,
                                       const std::vector<int>& sizes, const std::string& why) {
  progress_(absl::StrCat("measuring ", what.device, " (", what.device_kind, ")",
                         what.share ? " with a share of the blocks' width" : "", why));
  const auto device =
      std::find_if(request.devices.begin(), request.devices.end(),
                   [&](const ClusterDeviceLocation& d) { return FullName(d) == what.device; });
  if (device == request.devices.end()) return Failed(absl::InternalError("a profile of an unknown device"));
  return Profile(request, *device, {what.share, sizes});
}

Measurement::Result Measurement::MeasureTogether(const MeasurementRequest& request) {
  Cluster known;
  if (AttemptEnd read = Known(request, known); !read.status.ok()) return {std::move(read), {}};
  SlowdownMeasurement slowdowns(store_, run_, progress_);
  AttemptEnd slowed = slowdowns.Measure(request.spec, ShapeKey(request.training), request.devices, known);
  if (!slowed.status.ok()) return {std::move(slowed), {}};
  LinkMeasurement links(store_, run_, progress_, request.training.communication.message_protection);
  AttemptEnd end = links.Measure(request.devices, LinkMeasurement::What::kMissing);
  if (!end.status.ok()) return {std::move(end), {}};
  Result result;
  result.end = Known(request, result.cluster);
  return result;
}

AttemptEnd Measurement::Known(const MeasurementRequest& request, Cluster& cluster) {
  cluster = NodesOf(request.devices);
  const absl::StatusOr<std::vector<v1::DeviceProfile>> profiles = store_.ListProfiles();
  if (!profiles.ok()) return EndOfStore(profiles.status());
  const absl::StatusOr<std::vector<v1::LinkProfile>> links = store_.ListLinks();
  if (!links.ok()) return EndOfStore(links.status());
  const absl::StatusOr<std::vector<v1::HostSlowdown>> slowdowns = store_.ListHostSlowdowns();
  if (!slowdowns.ok()) return EndOfStore(slowdowns.status());
  for (const v1::DeviceProfile& profile : *profiles) cluster.profiles.push_back(DecodeProfile(profile));
  for (const v1::HostSlowdown& slowdown : *slowdowns) cluster.slowdowns.push_back(DecodeSlowdown(slowdown));
  return {.status = AddLinks(LinkTable(*links, request.training.communication.message_protection),
                             request.devices, cluster)};
}

}  // namespace medley
