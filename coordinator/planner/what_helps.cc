#include "coordinator/planner/what_helps.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/planner/host_pairs.h"
#include "coordinator/planner/seconds_of_plan.h"
#include "coordinator/predictor/predict.h"
#include "coordinator/predictor/shared_ways.h"
#include "runtime/ir/cluster/cluster.h"

namespace medley {
namespace {

constexpr double kTimes = 2;
constexpr double kLeastHelp = 0.005;
constexpr size_t kMostShown = 5;
// Of more sites the links between all of them are one sort: there are too many pairs to predict the plan for each.
constexpr size_t kMostSites = 4;
// Pairs of hosts are looked at where hosts and devices in use are few; of those the few that the plan takes longest between, for what
// one pair alone holds up waits there.
constexpr size_t kMostHosts = 16, kMostPairs = 4;
constexpr int kMostRanks = 256;
// A pair of hosts is told that alone brings such a part of what all links of a sort do.
constexpr double kNearlyAll = 0.5;

// Everything but the latency takes less time.
void SpeedUp(LinkModel& model) {
  const double latency_seconds = model.LatencySeconds();
  for (LinkPoint& point : model.points)
    point.seconds = latency_seconds + (point.seconds - latency_seconds) / kTimes;
}

// What was measured of sums by a library over links of which some are not among `links`.
std::vector<std::vector<AllReduceTimes>> MeasuredOfOthers(const std::vector<LinkedDevices>& links,
                                                          const PlanningProblem& problem) {
  std::set<const LinkCost*> among;
  for (const LinkedDevices& link : links) among.insert(&problem.links.Between(link.a, link.b));
  std::vector<std::vector<AllReduceTimes>> measured;
  for (const LinkedDevices& other : KindsOfLinks(problem)) {
    const LinkCost& cost = problem.links.Between(other.a, other.b);
    if (among.contains(&cost) || cost.all_reduce.empty()) continue;
    if (std::find(measured.begin(), measured.end(), cost.all_reduce) == measured.end())
      measured.push_back(cost.all_reduce);
  }
  return measured;
}

// The ways out of racks and sites and the cards of hosts, which carry what their fastest links do, get faster with these. Sums by a library
// do where all links change that have the same: of some faster ones nobody knows whether they are what the library waits for.
void SpeedUp(const std::vector<LinkedDevices>& links, PlanningProblem& problem) {
  const std::vector<std::vector<AllReduceTimes>> kept = MeasuredOfOthers(links, problem);
  for (const LinkedDevices& link : links) {
    LinkCost& cost = problem.links.Mutable(link.a, link.b);
    SpeedUp(cost.transfer);
    SpeedUp(cost.exchange);
    if (std::find(kept.begin(), kept.end(), cost.all_reduce) != kept.end()) continue;
    for (AllReduceTimes& times : cost.all_reduce) SpeedUp(times.seconds);
  }
}

// No two devices of different racks or sites have an end together, so that links between these can be changed by themselves.
PlanningProblem WithPlacesApart(PlanningProblem problem) {
  std::vector<int> innermost;
  for (const ByLevel<int>& places : PlacesOf(problem))
    innermost.push_back(places[WayLevel::kRack] < 0 ? places[WayLevel::kSite] : places[WayLevel::kRack]);
  problem.links = problem.links.Apart(innermost);
  return problem;
}

std::string Ends(std::string a, std::string b) {
  if (b < a) std::swap(a, b);
  return a == b ? a : absl::StrCat(a, " and ", b);
}

class Helps {
 public:
  Helps(const PlanningProblem& problem, const Plan& plan, const SearchLimits& limits)
      : problem_(WithPlacesApart(problem)), plan_(plan), limits_(limits), ways_(problem_) {
    std::set<std::string> known;
    for (const DeviceCost& device : problem.devices) {
      sites_.insert(device.site);
      if (known.insert(device.kind).second) kinds_.push_back(device.kind);
    }
  }

  std::vector<Explanation::Help> Run() {
    const absl::StatusOr<double> now = SecondsOfPlans(problem_).Of(plan_);
    if (!now.ok()) return {};
    step_seconds_ = *now;
    LookAtLinks();
    LookAtPairsOfHosts();
    LookAtCards();
    LookAtCopies();
    LookAtMemory();
    std::stable_sort(helps_.begin(), helps_.end(),
                     [](const auto& a, const auto& b) { return a.step_seconds < b.step_seconds; });
    if (helps_.size() > kMostShown) helps_.resize(kMostShown);
    return std::move(helps_);
  }

 private:
  void LookAtLinks() {
    std::map<std::string, std::vector<LinkedDevices>> sorts;
    for (const LinkedDevices& link : KindsOfLinks(problem_)) sorts[SortOf(link)].push_back(link);
    for (const auto& [sort, links] : sorts) {
      gain_seconds_[sort] = Try(absl::StrCat("twice the rate of links between ", sort),
                                [&links = links](PlanningProblem& problem) { SpeedUp(links, problem); });
    }
  }

  void LookAtPairsOfHosts() {
    std::set<int> hosts;
    for (int d = 0; d < static_cast<int>(problem_.devices.size()); ++d) hosts.insert(HostOf(problem_, d));
    // Of two hosts the sort says it all.
    if (hosts.size() < 3 || hosts.size() > kMostHosts || RankCount(plan_) > kMostRanks) return;
    if (std::all_of(gain_seconds_.begin(), gain_seconds_.end(),
                    [](const auto& of) { return of.second == 0; }))
      return;
    size_t tried = 0;
    for (const HostPair& pair : HostPairsInUse(problem_, plan_)) {
      if (tried == kMostPairs) return;
      if (TryPair(pair)) ++tried;
    }
  }

  // False: it cannot bring as much as to be told, whatever the plan then takes.
  bool TryPair(const HostPair& pair) {
    if (limits_.stopped()) return false;
    std::vector<int> part;
    for (int d = 0; d < static_cast<int>(problem_.devices.size()); ++d) {
      const int host = HostOf(problem_, d);
      part.push_back(host == pair.a ? 1 : host == pair.b ? 2 : 0);
    }
    PlanningProblem apart = problem_;
    apart.links = problem_.links.Apart(part);
    std::vector<LinkedDevices> links;
    double sort_gain_seconds = 0;  // of that which brings most
    for (const LinkedDevices& link : KindsOfLinks(apart)) {
      if (std::minmax({part[link.a], part[link.b]}) != std::pair(1, 2)) continue;
      links.push_back(link);
      sort_gain_seconds = std::max(sort_gain_seconds, gain_seconds_[SortOf(link)]);
    }
    if (sort_gain_seconds == 0) return false;
    PlanningProblem faster = apart;
    SpeedUp(links, faster);
    // What leaves a rack or a site goes by a way that all share: two hosts by themselves get no link that is faster than it.
    if (!SharedWays(faster).HasWaysBetweenHostsOf(SharedWays(apart))) return false;
    const absl::StatusOr<double> seconds = SecondsOfPlans(faster).Of(plan_);
    const auto is_nearly_all = [&](double now_seconds) {
      return now_seconds - *seconds >= kNearlyAll * sort_gain_seconds;
    };
    if (!seconds.ok() || !IsHelp(*seconds) || !is_nearly_all(step_seconds_)) return true;
    // Of many devices, hosts that are told apart may be predicted otherwise without being any faster.
    const absl::StatusOr<double> apart_seconds = SecondsOfPlans(apart).Of(plan_);
    if (apart_seconds.ok() && is_nearly_all(*apart_seconds)) {
      helps_.push_back({absl::StrCat("twice the rate of links between ",
                                     Ends(NameOfHost(pair.a), NameOfHost(pair.b)), " alone"),
                        *seconds, false});
    }
    return true;
  }

  // By its nodes.
  std::string NameOfHost(int host) const {
    std::set<std::string> nodes;
    for (int d = 0; d < static_cast<int>(problem_.devices.size()); ++d) {
      if (HostOf(problem_, d) == host) nodes.insert(NodeOf(problem_.devices[d].name));
    }
    return absl::StrJoin(nodes, "+");
  }

  // What they join, for people. What goes between two sites shares the ways out of these, and between racks of a site likewise; in one
  // rack devices of the same two kinds are joined alike, or nearly so.
  std::string SortOf(const LinkedDevices& link) const {
    const DeviceCost &a = problem_.devices[link.a], &b = problem_.devices[link.b];
    if (link.within_host) return absl::StrCat(Ends(a.kind, b.kind), " of one host");
    if (a.site == b.site) {
      const bool has_racks = ways_.places(WayLevel::kRack) > 0;
      return absl::StrCat(a.rack != b.rack ? "different racks"
                                           : absl::StrCat(Ends(a.kind, b.kind), " of different hosts",
                                                          has_racks ? " in one rack" : ""),
                          sites_.size() > 1 && (a.rack != b.rack || !has_racks) ? " at one site" : "");
    }
    return sites_.size() > kMostSites ? "different sites" : Ends(NameOfSite(a.site), NameOfSite(b.site));
  }

  std::string NameOfSite(int site) const {
    const std::vector<std::string>& names = problem_.site_names;
    const bool has_name = static_cast<size_t>(site) < names.size() && !names[site].empty();
    return has_name ? names[site] : "the unnamed site";
  }

  void LookAtCards() {
    for (const std::string& kind : kinds_) {
      std::set<int> hosts;
      for (const DeviceCost& device : problem_.devices) {
        if (device.kind == kind && device.network_cards > 0) hosts.insert(device.host);
      }
      if (hosts.empty()) continue;
      Try(absl::StrCat("twice as many network cards in the hosts of ", kind), [&](PlanningProblem& problem) {
        for (DeviceCost& device : problem.devices) {
          if (hosts.count(device.host) > 0) device.network_cards *= static_cast<int>(kTimes);
        }
      });
    }
  }

  void LookAtCopies() {
    const bool copies = std::any_of(plan_.units.begin(), plan_.units.end(), [](const Unit& unit) {
      return unit.lives_on_host() || unit.activations_home == ActivationsHome::kHost;
    });
    if (!copies) return;
    for (const std::string& kind : kinds_) {
      Try(absl::StrCat("twice the rate of copies between host memory and ", kind),
          [&](PlanningProblem& problem) {
            for (DeviceCost& device : problem.devices) {
              if (device.kind != kind) continue;
              device.fetch_bytes_per_second *= kTimes;
              device.store_bytes_per_second *= kTimes;
            }
          });
    }
  }

  void LookAtMemory() {
    if (problem_.devices.size() > kMostPlannedAnew) return;
    // Where it is plenty nothing needs to be saved, which is most of what there is to search.
    for (const bool saves : {false, true}) {
      if (saves && !problem_.constraints.saves_memory) return;
      if (!SecondsWithMemory("", saves)) continue;
      for (const std::string& kind : kinds_) {
        if (const std::optional<double> seconds = SecondsWithMemory(kind, saves))
          helps_.push_back({absl::StrCat("twice the memory of ", kind), *seconds, true});
      }
      return;
    }
  }

  // Of the best plan with more memory on a kind of device, or on all, if it is empty; none: that is no help.
  std::optional<double> SecondsWithMemory(const std::string& kind, bool saves) const {
    if (limits_.stopped()) return std::nullopt;
    PlanningProblem changed = problem_;
    changed.constraints.saves_memory = saves;
    for (DeviceCost& device : changed.devices) {
      if (!kind.empty() && device.kind != kind) continue;
      device.room.memory = {static_cast<int64_t>(kTimes) * device.room.memory.value};
      for (ShareCost& share : device.shares)
        share.room.memory = {static_cast<int64_t>(kTimes) * share.room.memory.value};
    }
    const absl::StatusOr<ChosenPlan> chosen = ChoosePlan(changed, limits_.OfComparison());
    // What fits as it is needs no more.
    if (!chosen.ok() || FitsMemory(problem_, chosen->plan)) return std::nullopt;
    const absl::StatusOr<double> seconds = SecondsOfPlans(changed).Of(chosen->plan);
    if (!seconds.ok() || !IsHelp(*seconds)) return std::nullopt;
    return *seconds;
  }

  // How much shorter steps are then; 0: it is no help.
  double Try(std::string change, const std::function<void(PlanningProblem&)>& make) {
    if (limits_.stopped()) return 0;
    PlanningProblem changed = problem_;
    make(changed);
    const absl::StatusOr<double> seconds = SecondsOfPlans(changed).Of(plan_);
    if (!seconds.ok() || !IsHelp(*seconds)) return 0;
    helps_.push_back({std::move(change), *seconds, false});
    return step_seconds_ - *seconds;
  }

  bool IsHelp(double seconds) const { return seconds <= (1 - kLeastHelp) * step_seconds_; }

  const PlanningProblem problem_;
  const Plan& plan_;
  const SearchLimits& limits_;
  std::vector<std::string> kinds_;
  const SharedWays ways_;  // of problem_
  std::set<int> sites_;
  double step_seconds_ = 0;
  std::map<std::string, double> gain_seconds_;  // of each sort of links; 0: they are no help
  std::vector<Explanation::Help> helps_;
};

}  // namespace

std::vector<Explanation::Help> WhatHelps(const PlanningProblem& problem, const Plan& plan,
                                         const SearchLimits& limits) {
  return Helps(problem, plan, limits).Run();
}

}  // namespace medley
