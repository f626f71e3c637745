#include "coordinator/orchestrator/explain_all_reduce.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "coordinator/orchestrator/link_pairs.h"
#include "coordinator/predictor/reductions.h"
#include "coordinator/problem/network.h"
#include "runtime/base/status_macros.h"
#include "runtime/wire/algorithm_codec.h"
#include "runtime/wire/link_codec.h"

namespace medley {
namespace {

constexpr CollectiveAlgorithm kAlgorithms[] = {
    CollectiveAlgorithm::kRing, CollectiveAlgorithm::kHalvingDoubling, CollectiveAlgorithm::kTree,
    CollectiveAlgorithm::kHierarchical};

absl::Status CheckDevices(const std::vector<ClusterDeviceLocation>& devices) {
  std::set<std::string> names;
  for (const ClusterDeviceLocation& device : devices) {
    if (names.insert(FullName(device)).second) continue;
    return absl::InvalidArgumentError(absl::StrCat("devices: ", FullName(device), " is named twice"));
  }
  if (devices.size() >= 2) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("devices: ", absl::StrJoin(names, ", "), ": a sum takes two or more"));
}

// As far as sums are concerned.
absl::StatusOr<PlanningProblem> ProblemOf(const std::vector<ClusterDeviceLocation>& devices,
                                          const LinkTable& links) {
  const size_t count = devices.size();
  PlanningProblem problem;
  problem.links = DeviceLinks(static_cast<int>(count));
  std::map<std::string, int> machines;
  std::vector<NodeNetwork> networks;
  for (size_t i = 0; i < count; ++i) {
    DeviceCost& device = problem.devices.emplace_back();
    device.name = FullName(devices[i]);
    device.host = machines.emplace(MachineOf(devices[i]), static_cast<int>(machines.size())).first->second;
    networks.push_back({devices[i].site, devices[i].rack, devices[i].network_cards});
    for (size_t j = 0; j < i; ++j) {
      const std::optional<v1::LinkProfile> link = links.Between(devices[i], devices[j]);
      if (!link) {
        return absl::FailedPreconditionError(
            absl::StrCat("the link ", FullName(devices[j]), " - ", FullName(devices[i]),
                         " was not measured yet; `medley links --refresh` does it"));
      }
      ASSIGN_OR_RETURN(problem.links.Mutable(static_cast<int>(i), static_cast<int>(j)), DecodeLink(*link));
    }
  }
  SetNetwork(networks, problem);
  return problem;
}

// What a job would do whose spec forces `algorithm`, or none.
CollectiveChoice Choose(PlanningProblem& problem, int64_t elements,
                        std::optional<CollectiveAlgorithm> algorithm) {
  problem.forced_all_reduce = algorithm;
  std::vector<int> all(problem.devices.size());
  std::iota(all.begin(), all.end(), 0);
  return Reductions(problem).Choose(all, elements);
}

// "a, b, c", in groups "(a, b) (c)", of several levels "((a, b) (c)) ((d))"; with the part that each sums
// where they differ.
std::string ShapeText(const CollectiveChoice& choice, const std::vector<ClusterDeviceLocation>& devices) {
  std::vector<int> order = choice.shape.order;
  if (order.empty()) {
    order.resize(devices.size());
    std::iota(order.begin(), order.end(), 0);
  }
  const std::vector<double>& shares = choice.shape.shares;
  const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::vector<std::string> parts;
  for (const int place : order) {
    parts.push_back(FullName(devices[place]));
    if (!shares.empty())
      absl::StrAppend(&parts.back(), absl::StrFormat(" %.0f %%", 100 * shares[place] / total));
  }
  const char* separator = ", ";
  for (const std::vector<int>& sizes : choice.shape.levels) {
    std::vector<std::string> groups;
    size_t begin = 0;
    for (const int size : sizes) {
      groups.push_back(absl::StrCat(
          "(", absl::StrJoin(parts.begin() + begin, parts.begin() + begin + size, separator), ")"));
      begin += static_cast<size_t>(size);
    }
    parts = std::move(groups);
    separator = " ";
  }
  return absl::StrJoin(parts, separator);
}

}  // namespace

absl::StatusOr<v1::AllReduceExplanation> ExplainAllReduce(const std::vector<ClusterDeviceLocation>& devices,
                                                          uint64_t bytes, const LinkTable& links) {
  RETURN_IF_ERROR(CheckDevices(devices));
  if (bytes < sizeof(float))
    return absl::InvalidArgumentError(absl::StrCat("bytes: ", bytes, " is not one f32"));
  ASSIGN_OR_RETURN(PlanningProblem problem, ProblemOf(devices, links));
  const auto elements = static_cast<int64_t>(bytes / sizeof(float));
  v1::AllReduceExplanation explanation;
  for (const ClusterDeviceLocation& device : devices) explanation.add_devices(FullName(device));
  explanation.set_bytes(bytes);
  explanation.set_chosen(EncodeAllReduceAlgorithm(Choose(problem, elements, std::nullopt).algorithm));
  for (const CollectiveAlgorithm algorithm : kAlgorithms) {
    const CollectiveChoice choice = Choose(problem, elements, algorithm);
    v1::AllReduceCandidate& candidate = *explanation.add_candidates();
    candidate.set_algorithm(EncodeAllReduceAlgorithm(algorithm));
    if (algorithm == CollectiveAlgorithm::kHierarchical && choice.shape.levels.empty()) {
      candidate.set_impossible(
          "no boundary between these devices: neither hosts nor slower links divide them");
      continue;
    }
    candidate.set_predicted_seconds(choice.predicted_seconds);
    candidate.set_shape(ShapeText(choice, devices));
  }
  const auto rank = [](const v1::AllReduceCandidate& c) {
    return std::make_pair(!c.impossible().empty(), c.predicted_seconds());
  };
  std::stable_sort(explanation.mutable_candidates()->begin(), explanation.mutable_candidates()->end(),
                   [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return explanation;
}

}  // namespace medley
