#include "coordinator/predictor/library_sums.h"

#include <algorithm>

#include "runtime/ir/cluster/cluster.h"

namespace medley {
namespace {

// All links between two of them have these.
bool HaveAll(const std::vector<AllReduceTimes>& measured, const PlanningProblem& problem,
             const std::vector<int>& devices) {
  const std::vector<LinkedDevices> kinds = KindsOfLinks(problem, devices);
  return std::all_of(kinds.begin(), kinds.end(), [&](const LinkedDevices& link) {
    const std::vector<AllReduceTimes>& other = problem.links.Between(link.a, link.b).all_reduce;
    return &other == &measured || other == measured;
  });
}

}  // namespace

GroupWay GroupWayOf(const PlanningProblem& problem, const std::vector<int>& devices, GroupUse use,
                    bool exchanging) {
  GroupWayQuestion question{
      .use = use, .device_memory = problem.device_memory, .message_protection = problem.message_protection};
  for (const int d : devices) {
    const DeviceCost& device = problem.devices[d];
    question.members.push_back(static_cast<int>(question.facts.size()));
    question.facts.push_back({.device = device.name,
                              .library = device.group_library,
                              .identity = device.name,
                              .host_reaches = !device.has_own_memory,
                              .node = NodeOf(device.name)});
  }
  if (use == GroupUse::kGradients) {
    question.wire = problem.wire_bytes_per_element == 2 ? WireType::kBf16 : WireType::kF32;
    question.algorithm = problem.forced_all_reduce;
    if (exchanging) question.exchanging_in_passes = question.members;
  }
  return ChooseGroupWay(question).way;
}

const std::vector<AllReduceTimes>* LibrarySumsOf(const PlanningProblem& problem,
                                                 const std::vector<int>& devices, GroupUse use,
                                                 bool exchanging) {
  if (devices.size() < 2) return nullptr;
  const std::vector<AllReduceTimes>& measured = problem.links.Between(devices[0], devices[1]).all_reduce;
  // The cheapest question first.
  if (measured.empty() || GroupWayOf(problem, devices, use, exchanging) != GroupWay::kLibrary ||
      !HaveAll(measured, problem, devices))
    return nullptr;
  return &measured;
}

bool AnySumIsMeasured(const PlanningProblem& problem) {
  return std::any_of(problem.links.each().begin(), problem.links.each().end(),
                     [](const LinkCost& link) { return !link.all_reduce.empty(); });
}

}  // namespace medley
