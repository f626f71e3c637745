#include "coordinator/planner/classes/sum_floor.h"

#include <algorithm>
#include <map>
#include <set>

#include "coordinator/predictor/alike_routes.h"
#include "coordinator/predictor/library_sums.h"
#include "runtime/ir/collective/hierarchical_schedule.h"
#include "runtime/ir/link/link_rise.h"

namespace medley {
namespace {

// Parts of vectors are whole elements.
constexpr double kRounding = 1e-4;

// The links that there are between devices of one host, and of several.
struct Rises {
  LinkRise within, between;
};

Rises RisesOf(const PlanningProblem& problem) {
  Rises rises;
  for (const LinkedDevices& kind : KindsOfLinks(problem))
    (kind.within_host ? rises.within : rises.between).Cover(problem.links.Between(kind.a, kind.b));
  return rises;
}

// Of those between the hosts of these devices and others.
LinkRise RiseFrom(const PlanningProblem& problem, const std::vector<int>& devices) {
  std::set<int> ends;
  for (const int d : devices) ends.insert(problem.links.EndOf(d));
  LinkRise rise;
  for (const LinkedDevices& kind : KindsOfLinks(problem)) {
    const bool is_of_one =
        ends.contains(problem.links.EndOf(kind.a)) || ends.contains(problem.links.EndOf(kind.b));
    if (!kind.within_host && is_of_one) rise.Cover(problem.links.Between(kind.a, kind.b));
  }
  return rise;
}

// Whether hosts follow each other in the problem, so that samples of devices are of all hosts.
bool HostsAreWhole(const PlanningProblem& problem) {
  std::set<int> seen;
  for (int d = 0; d < static_cast<int>(problem.devices.size()); ++d) {
    const int host = HostOf(problem, d);
    if (!seen.insert(host).second && HostOf(problem, d - 1) != host) return false;
  }
  return true;
}

int CeilingOf(int numerator, int denominator) { return (numerator + denominator - 1) / denominator; }

}  // namespace

SumFloor::Intake SumFloor::IntakeOf(double part, double bytes_per_second, double holders,
                                    double level_bytes) {
  if (!(bytes_per_second > 0) || part <= 0) return {};
  return {part, bytes_per_second, holders * 2 * kHierarchicalPieces * kMostSummed * level_bytes / part};
}

SumFloor::SumFloor(const PlanningProblem& problem) : bytes_per_element_(problem.wire_bytes_per_element) {
  if (!AnySumIsMeasured(problem)) gathered_over_scattered_ = kGatheredBytesPerElement / bytes_per_element_;
}

SumFloor SumFloor::OfHosts(const PlanningProblem& problem, const DeviceClass& of, int holders) {
  SumFloor floor(problem);
  std::set<int> hosts;
  for (const std::vector<int>& devices : of.hosts) hosts.insert(HostOf(problem, devices.front()));
  std::map<int, int> devices_on;
  std::vector<int> there;
  for (int d = 0; d < static_cast<int>(problem.devices.size()); ++d) {
    const int host = HostOf(problem, d);
    if (!hosts.contains(host)) continue;
    const int cards = problem.devices[d].network_cards;
    if (cards <= 0) return floor;
    there.push_back(d);
    floor.most_cards_ = std::max(floor.most_cards_, cards);
    floor.most_on_host_ = std::max(floor.most_on_host_, ++devices_on[host]);
  }
  const LinkRise rise = RiseFrom(problem, there);
  const double others = 1 - static_cast<double>(floor.most_on_host_) / holders;
  floor.between_ = IntakeOf(2 * others, rise.bytes_per_second, holders, rise.level_bytes);
  return floor;
}

SumFloor::SumFloor(const PlanningProblem& problem, int replicas) : SumFloor(problem) {
  std::map<int, int> devices_on;
  for (const DeviceCost& device : problem.devices) {
    if (device.network_cards <= 0) return;
    most_cards_ = std::max(most_cards_, device.network_cards);
    if (device.host >= 0) most_on_host_ = std::max(most_on_host_, ++devices_on[device.host]);
  }
  if (replicas < 2) return;
  const Rises rises = RisesOf(problem);
  const int sampled = std::min(replicas, kMostSummed);
  // So many of a host a sample has at most.
  const int on_host = HostsAreWhole(problem) ? CeilingOf(most_on_host_ * sampled, replicas) : most_on_host_;
  const double hosts = std::min({CeilingOf(replicas, most_on_host_), CeilingOf(sampled, on_host), sampled});
  between_ = IntakeOf(2 * (hosts - 1) / hosts, rises.between.bytes_per_second, most_on_host_,
                      rises.between.level_bytes);
  within_ = IntakeOf(1, rises.within.bytes_per_second + rises.between.bytes_per_second, 2,
                     std::max(rises.within.level_bytes, rises.between.level_bytes));
}

double SumFloor::Seconds(double elements, int degree, int segments) const {
  const double bytes = bytes_per_element_ * elements * (1 - kRounding), sums = most_on_host_ * segments;
  const auto seconds = [&](const Intake& intake, double come_bytes, double at_once) {
    if (intake.part == 0) return 0.0;
    return std::max(0.0, come_bytes - sums * intake.level_bytes) * intake.part /
           (at_once * intake.bytes_per_second);
  };
  return std::max(seconds(between_, bytes, std::min(most_cards_, most_on_host_)),
                  seconds(within_, bytes / degree, 1));
}

}  // namespace medley
