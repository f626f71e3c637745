// What is asked of nodes and jobs, which changes neither.
#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "coordinator/orchestrator/alike_links.h"
#include "coordinator/orchestrator/node_checks.h"
#include "coordinator/orchestrator/node_kernels.h"
#include "coordinator/orchestrator/orchestrator.h"
#include "coordinator/orchestrator/prediction_record.h"
#include "coordinator/orchestrator/trace_request.h"
#include "runtime/base/counted.h"
#include "runtime/base/status_macros.h"
#include "runtime/log/log.h"
#include "runtime/wire/cluster_codec.h"

namespace medley {
namespace {

// That an agent may take to open its devices and ask them; those with a compiler of their own take longest.
constexpr absl::Duration kKernelsTime = absl::Minutes(2);

}  // namespace

absl::StatusOr<v1::ListKernelsResponse> Orchestrator::Kernels(const std::string& node) {
  return ListKernels(Nodes(), node, agents_, Now() + kKernelsTime);
}

absl::StatusOr<v1::CheckNodesResponse> Orchestrator::CheckNodes(const v1::CheckNodesRequest& request) {
  return medley::CheckNodes(Nodes(), request, agents_, Now() + kKernelsTime);
}

absl::StatusOr<v1::GetStacksResponse> Orchestrator::Stacks(const std::string& job_id) {
  ASSIGN_OR_RETURN(const v1::Job job, journal_.Get(job_id));
  return StacksOf(job, agents_, Now() + kKernelsTime);
}

absl::Status Orchestrator::TraceSteps(const v1::TraceStepsRequest& request,
                                      const std::function<bool(const v1::TraceStepsUpdate&)>& update,
                                      const std::function<bool()>& cancelled) {
  ASSIGN_OR_RETURN(const v1::Job job, journal_.Get(request.job_id()));
  const auto live = std::make_shared<LiveTrace>(job.tasks_size());
  {
    MutexLock lock(mutex_);
    const auto active = active_.find(job.id());
    if (job.state() != v1::JOB_STATE_RUNNING || active == active_.end() || active->second.ended)
      return absl::FailedPreconditionError(absl::StrCat("job ", job.id(), " does not run"));
    RETURN_IF_ERROR(active->second.runner->FeedTrace(live));
  }
  LogInfo(absl::StrCat(Counted(request.steps(), "step"), " to be traced"),
          {.job = job.id(), .attempt = job.attempt()});
  const absl::Status status = ServeTrace(job, request.steps(), agents_, *live, update, cancelled);
  live->Close();
  return status;
}

absl::StatusOr<std::vector<v1::DeviceProfile>> Orchestrator::Profiles() {
  std::set<std::string> kinds;
  for (const v1::Node& node : Nodes()) {
    for (const v1::Device& device : node.devices()) kinds.insert(device.kind());
  }
  ASSIGN_OR_RETURN(std::vector<v1::DeviceProfile> profiles, store_.ListProfiles());
  std::erase_if(profiles,
                [&](const v1::DeviceProfile& profile) { return kinds.count(profile.device_kind()) == 0; });
  return profiles;
}

absl::StatusOr<v1::ClusterSpec> Orchestrator::ExportCluster() {
  v1::ClusterSpec cluster;
  for (v1::Node& node : Nodes()) {
    if (node.alive()) *cluster.add_nodes() = std::move(node);
  }
  ASSIGN_OR_RETURN(const std::vector<v1::DeviceProfile> profiles, store_.ListProfiles());
  cluster.mutable_profiles()->Add(profiles.begin(), profiles.end());
  ASSIGN_OR_RETURN(const std::vector<v1::HostSlowdown> slowdowns, store_.ListHostSlowdowns());
  cluster.mutable_slowdowns()->Add(slowdowns.begin(), slowdowns.end());
  const std::vector<v1::LiveError> errors = PredictionErrors(store_);
  cluster.mutable_live_errors()->Add(errors.begin(), errors.end());
  ASSIGN_OR_RETURN(const KnownLinks links, Links({}));
  if (links.devices.size() <= kMostDevicesByLink) {
    links.table.ForEachAmong(links.devices, [&](const v1::LinkProfile& link) {
      *cluster.add_links() = link;
      return true;
    });
    return cluster;
  }
  // With the sites and racks that nodes in `cluster` have, by which classes of links are said.
  Cluster alike;
  for (const v1::Node& node : cluster.nodes())
    alike.nodes.push_back({.name = node.name(), .site = node.site(), .rack = node.rack()});
  RETURN_IF_ERROR(AddLinks(links.table, links.devices, alike));
  v1::ClusterSpec encoded = EncodeCluster(alike);
  cluster.mutable_links()->Swap(encoded.mutable_links());
  cluster.mutable_link_classes()->Swap(encoded.mutable_link_classes());
  return cluster;
}

}  // namespace medley
