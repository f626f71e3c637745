#include "coordinator/predictor/library_sums.h"

#include <algorithm>

namespace medley {
namespace {

// Of all links between two of them; null: there is none, or not the same everywhere.
const std::vector<AllReduceTimes>* MeasuredBetween(const DeviceLinks& links,
                                                   const std::vector<int>& devices) {
  const std::vector<AllReduceTimes>& first = links.Between(devices[0], devices[1]).all_reduce;
  if (first.empty()) return nullptr;
  for (size_t i = 0; i < devices.size(); ++i) {
    for (size_t j = 0; j < i; ++j)
      if (links.Between(devices[i], devices[j]).all_reduce != first) return nullptr;
  }
  return &first;
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
                              .node = device.name.substr(0, device.name.find('/'))});
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
  if (devices.size() < 2 || devices.size() > kMostInPairs) return nullptr;
  const std::vector<AllReduceTimes>* const measured = MeasuredBetween(problem.links, devices);
  if (measured == nullptr || GroupWayOf(problem, devices, use, exchanging) != GroupWay::kLibrary)
    return nullptr;
  return measured;
}

}  // namespace medley
