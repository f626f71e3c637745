#include "coordinator/planner/classes/stage_messages.h"

#include <algorithm>

namespace medley {
namespace {

// What part of an activation takes from a kind's first device to another one.
double TransferSecondsTo(const StageKind& receiver, int device, const StageKind& sender, double bytes,
                         const PlanningProblem& problem, const std::vector<DeviceClass>& classes,
                         const SharedWays& ways, const TableScope& scope) {
  const LinkModel& transfer = problem.links.Between(sender.devices[0], device).transfer;
  const double latency_seconds = transfer.LatencySeconds(), seconds = transfer.Seconds(bytes);
  if (scope.of_bounds) return seconds;
  const auto at_once = [&](const StageKind& kind) {
    const DeviceClass& of = classes[kind.device_class];
    const double of_routes = static_cast<double>(scope.most_routes) * kind.degree;
    AtOnce at_once;
    for (const WayLevel level : kWayLevels)
      at_once[level] = std::min<double>(of_routes, level == WayLevel::kHost ? of.most_on_host : of.devices);
    return at_once;
  };
  const double slowdown = ways.SlowdownOfMessage(sender.devices[0], at_once(sender), device,
                                                 at_once(receiver), transfer.BytesPerSecond());
  return latency_seconds + slowdown * (seconds - latency_seconds);
}

}  // namespace

StageMessages::StageMessages(const PlanningProblem& problem, const std::vector<DeviceClass>& classes,
                             const std::vector<StageKind>& kinds, const SharedWays& ways,
                             const TableScope& scope)
    : kinds_(kinds.size()),
      seconds_(2 * kinds_ * kinds_, std::vector<double>(problem.micro_batch_sizes.size(), 0)) {
  // A device of a class on another host than that of `kind`; -1: there is none.
  const auto elsewhere = [&](const StageKind& kind, int device_class) {
    const int host = problem.devices[kind.devices[0]].host;
    for (const std::vector<int>& devices : classes[device_class].hosts) {
      const bool other = problem.devices[devices[0]].host != host || host < 0;
      if (other && devices[0] != kind.devices[0]) return devices[0];
    }
    return -1;
  };
  const auto beside = [&](const StageKind& kind, int device_class) {
    const int host = problem.devices[kind.devices[0]].host;
    for (const std::vector<int>& devices : classes[device_class].hosts) {
      if (host < 0 || problem.devices[devices[0]].host != host) continue;
      for (const int d : devices) {
        if (std::find(kind.devices.begin(), kind.devices.end(), d) == kind.devices.end()) return d;
      }
    }
    return -1;
  };
  for (size_t from = 0; from < kinds_; ++from) {
    for (size_t to = 0; to < kinds_; ++to) {
      const StageKind &sender = kinds[from], &receiver = kinds[to];
      const int far = elsewhere(sender, receiver.device_class), near = beside(sender, receiver.device_class);
      for (size_t size = 0; size < problem.micro_batch_sizes.size(); ++size) {
        const Dtype dtype = NarrowerOf(sender.cost.activations, receiver.cost.activations);
        const double bytes = static_cast<double>(SizeOf(dtype).value) * problem.micro_batch_sizes[size] *
                             problem.shape.sequence * problem.shape.model.hidden;
        // Each rank sends its rows to those that have them; the fewer ends carry all.
        const double part = bytes / std::min(sender.degree, receiver.degree);
        for (const bool same_host : {false, true}) {
          int other = same_host ? near : far;
          if (other < 0) other = same_host ? far : near;
          if (other < 0) continue;
          seconds_[(from * kinds_ + to) * 2 + (same_host ? 1 : 0)][size] =
              TransferSecondsTo(receiver, other, sender, part, problem, classes, ways, scope) +
              (scope.of_bounds ? 0 : receiver.gather_seconds[size]);
        }
      }
    }
  }
}

}  // namespace medley
