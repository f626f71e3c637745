#include "coordinator/predictor/card_use.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace medley {
namespace {

// Of each end, to one on any other host.
std::vector<double> FastestLinks(const PlanningProblem& problem) {
  std::vector<double> fastest(problem.links.ends(), 0);
  for (const LinkedDevices& kind : KindsOfLinks(problem)) {
    if (kind.within_host) continue;
    const double bytes_per_second = problem.links.Between(kind.a, kind.b).exchange.BytesPerSecond();
    for (const int end : {problem.links.EndOf(kind.a), problem.links.EndOf(kind.b)})
      fastest[end] = std::max(fastest[end], bytes_per_second);
  }
  return fastest;
}

}  // namespace

CardUse::CardUse(const PlanningProblem& problem) : host_(problem.devices.size(), -1) {
  std::map<int, std::vector<int>> by_host;
  for (int d = 0; d < static_cast<int>(problem.devices.size()); ++d) {
    const DeviceCost& device = problem.devices[d];
    if (device.host >= 0 && device.network_cards > 0) by_host[device.host].push_back(d);
  }
  std::erase_if(by_host, [](const auto& host) { return host.second.size() < 2; });
  if (by_host.empty()) return;
  const std::vector<double> fastest = FastestLinks(problem);
  for (const auto& [number, devices] : by_host) {
    double bytes_per_second = 0;
    for (const int d : devices) {
      host_[d] = hosts();
      bytes_per_second = std::max(bytes_per_second, fastest[problem.links.EndOf(d)]);
    }
    bytes_per_second_.push_back(bytes_per_second * problem.devices[devices.front()].network_cards);
  }
}

int64_t CardUse::Part(int host, int hosts, double bytes, double seconds) const {
  const double in_bytes = bytes * 2 * (hosts - 1) / hosts, can = bytes_per_second_[host] * seconds;
  if (!(can > 0) || !std::isfinite(can)) return 0;
  return static_cast<int64_t>(std::min(1.0, in_bytes / can) * static_cast<double>(kAllCards));
}

void CardsWanted::Change(absl::Span<const CardPart> parts, int times) {
  for (const CardPart& of : parts) wanted_[of.host] += times * of.part;
}

double CardsWanted::Slowdown(absl::Span<const CardPart> parts) const {
  double slowdown = 1;
  for (const CardPart& of : parts) slowdown = std::max(slowdown, CardUse::Slowdown(wanted_[of.host]));
  return slowdown;
}

}  // namespace medley
