#include "coordinator/problem/alike_nodes.h"

#include "absl/strings/str_cat.h"
#include "coordinator/problem/planning_problem.h"

namespace medley {
namespace {

void AddNode(Cluster& cluster, const std::string& name, const std::string& kind) {
  cluster.nodes.push_back(
      {.name = name, .devices = {{.description = {.name = "cpu0", .memory_limit = GiB(1)}, .kind = kind}}});
}

void AddProfile(Cluster& cluster, const std::string& kind, double layer_seconds) {
  DeviceProfile& profile = cluster.profiles.emplace_back();
  profile.device_kind = kind;
  profile.shape = ShapeKey(SmallJob());
  profile.times.push_back(
      {.micro_batch_sequences = 1, .blocks = {.layer = {layer_seconds, 2 * layer_seconds}}});
}

}  // namespace

TrainingSpec SmallJob() {
  TrainingSpec spec;
  spec.shape = {{2, 256, 8, 1024, 256, 512}, 256, 8};
  return spec;
}

Cluster AlikeNodes(int alike) {
  Cluster cluster;
  for (int i = 0; i < alike; ++i) AddNode(cluster, absl::StrCat("a", i), "alike");
  AddNode(cluster, "z", "other");
  AddProfile(cluster, "alike", 1);
  AddProfile(cluster, "other", 3);
  cluster.default_link = {LinkModel::Line(1e-4, 1e9), LinkModel::Line(1e-4, 1e9)};
  return cluster;
}

JobConstraints Replicas(const std::vector<int>& micro_batches) {
  JobConstraints constraints;
  constraints.micro_batch_sizes = {1};
  constraints.plan.emplace();
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    if (micro_batches[i] == 0) continue;
    const int unit = static_cast<int>(constraints.plan->units.size());
    const std::string device = i + 1 == micro_batches.size() ? "z/cpu0" : absl::StrCat("a", i, "/cpu0");
    constraints.plan->units.push_back({.devices = {device}, .chunks = {{0, 4}}});
    constraints.plan->routes.push_back(
        {.units = {unit}, .micro_batches = micro_batches[i], .micro_batch_sequences = 1});
    constraints.devices.push_back(device);
  }
  return constraints;
}

}  // namespace medley
