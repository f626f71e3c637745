#include "coordinator/predictor/shared_ways.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "coordinator/predictor/cost_model.h"

namespace medley {
namespace {

int64_t PartOf(double share) {
  return share > 0 ? static_cast<int64_t>(share * static_cast<double>(SharedWays::kAll)) : 0;
}

}  // namespace

std::vector<ByLevel<int>> PlacesOf(const PlanningProblem& problem) {
  std::map<int, int> hosts, sites;
  std::map<std::pair<int, int>, int> racks;  // by site
  const auto number = [](const auto& place, auto& numbers) {
    return numbers.emplace(place, static_cast<int>(numbers.size())).first->second;
  };
  std::vector<ByLevel<int>> places(problem.devices.size());
  for (size_t d = 0; d < places.size(); ++d) {
    const DeviceCost& device = problem.devices[d];
    const bool has_cards = device.host >= 0 && device.network_cards > 0;
    places[d][WayLevel::kHost] = has_cards ? number(device.host, hosts) : -1;
    places[d][WayLevel::kRack] = number(std::pair(device.site, device.rack), racks);
    places[d][WayLevel::kSite] = number(device.site, sites);
  }
  for (ByLevel<int>& of : places) {
    if (racks.size() == sites.size()) of[WayLevel::kRack] = -1;
    if (sites.size() == 1) of[WayLevel::kSite] = -1;
  }
  return places;
}

SharedWays::SharedWays(const PlanningProblem& problem) {
  for (const ByLevel<int>& places : PlacesOf(problem)) {
    ends_.push_back({places, {}});
    for (const WayLevel level : kWayLevels) {
      const size_t count = places[level] + 1;
      if (rates_[level].size() < count) rates_[level].resize(count);
    }
  }
  if (count() == 0) return;
  std::map<int, std::set<int>> racks_of_site;
  for (const End& end : ends_) racks_of_site[end.places[WayLevel::kSite]].insert(end.places[WayLevel::kRack]);
  // What leaves the only rack of a site leaves the site, by whose way it is told already.
  const auto has_way = [&](const ByLevel<int>& places, WayLevel level) {
    return level != WayLevel::kRack || racks_of_site[places[WayLevel::kSite]].size() > 1;
  };
  const auto raise = [](Rate& rate, double sending, double summing) {
    rate.sending_bytes_per_second = std::max(rate.sending_bytes_per_second, sending);
    rate.summing_bytes_per_second = std::max(rate.summing_bytes_per_second, summing);
  };
  std::vector<Rate> fastest(problem.links.ends());  // of each end, to one on any other host
  for (const LinkedDevices& kind : KindsOfLinks(problem)) {
    if (kind.within_host) continue;
    const LinkCost& link = problem.links.Between(kind.a, kind.b);
    const double sending = link.transfer.BytesPerSecond(), summing = link.exchange.BytesPerSecond();
    const ByLevel<int>&a = ends_[kind.a].places, &b = ends_[kind.b].places;
    for (const int d : {kind.a, kind.b}) {
      raise(fastest[problem.links.EndOf(d)], sending, summing);
      const ByLevel<int>& places = ends_[d].places;
      for (const WayLevel level : {WayLevel::kRack, WayLevel::kSite}) {
        if (a[level] != b[level] && has_way(places, level))
          raise(rates_[level][places[level]], sending, summing);
      }
    }
  }
  for (size_t d = 0; d < problem.devices.size(); ++d) {
    const int host = ends_[d].places[WayLevel::kHost];
    if (host < 0) continue;
    const Rate& of_end = fastest[problem.links.EndOf(static_cast<int>(d))];
    const int cards = problem.devices[d].network_cards;
    raise(rates_[WayLevel::kHost][host], cards * of_end.sending_bytes_per_second,
          cards * of_end.summing_bytes_per_second);
  }
}

SharedWays SharedWays::Among(const std::vector<int>& devices,
                             const std::vector<MessagesAtOnce>& at_once) const {
  SharedWays among;
  ByLevel<std::map<int, int>> numbers;
  for (size_t i = 0; i < devices.size(); ++i) {
    const End& end = ends_[devices[i]];
    End& renumbered = among.ends_.emplace_back(end);
    if (!at_once.empty()) renumbered.at_once = at_once[i];
    for (const WayLevel level : kWayLevels) {
      const int known = end.places[level];
      if (known < 0) continue;
      const auto [place, is_new] = numbers[level].emplace(known, static_cast<int>(numbers[level].size()));
      if (is_new) among.rates_[level].push_back(rates_[level][known]);
      renumbered.places[level] = place->second;
    }
  }
  return among;
}

template <typename Visit>
void SharedWays::ForEachWay(int from, const AtOnce& sent, int to, const AtOnce& received,
                            double bytes_per_second, const Visit& visit) const {
  for (const WayLevel level : kWayLevels) {
    const int sender = PlaceOf(level, from), receiver = PlaceOf(level, to);
    if (sender == receiver) continue;
    const auto take = [&](int place, bool in, double at_once) {
      if (place < 0) return;
      const double part = bytes_per_second / rates_[level][place].sending_bytes_per_second;
      if (std::isfinite(part)) visit(WayOf(level, place, in), PartOf(part * std::max(1.0, at_once)));
    };
    take(sender, false, sent[level]);
    take(receiver, true, received[level]);
  }
}

void SharedWays::AddMessage(int from, int to, bool to_behind, double bytes_per_second,
                            std::vector<WayPart>& parts) const {
  const MessagesAtOnce &sender = ends_[from].at_once, &receiver = ends_[to].at_once;
  ForEachWay(from, to_behind ? sender.behind : sender.before, to,
             to_behind ? receiver.before : receiver.behind, bytes_per_second, [&](int way, int64_t part) {
               parts.push_back({way, part});
             });
}

double SharedWays::SlowdownOfMessage(int from, const AtOnce& sent, int to, const AtOnce& received,
                                     double bytes_per_second) const {
  double slowdown = 1;
  ForEachWay(from, sent, to, received, bytes_per_second,
             [&](int, int64_t part) { slowdown = std::max(slowdown, Slowdown(part)); });
  return slowdown;
}

void SharedWays::AddSum(absl::Span<const int> devices, double bytes, double seconds,
                        std::vector<WayPart>& parts) const {
  if (count() == 0) return;
  for (const WayLevel level : kWayLevels) {
    std::vector<int> places;
    int alone = 0;  // of devices with a way of their own, none
    for (const int device : devices) {
      const int place = PlaceOf(level, device);
      if (place < 0) {
        ++alone;
      } else if (std::find(places.begin(), places.end(), place) == places.end()) {
        places.push_back(place);
      }
    }
    const int members = alone + static_cast<int>(places.size());
    if (members < 2) continue;
    for (const int place : places) {
      const int64_t part = PartOfSum(BytesPerSecondOf(level, place), members, bytes, seconds);
      if (part == 0) continue;
      for (const bool in : {false, true}) parts.push_back({WayOf(level, place, in), part});
    }
  }
}

int64_t SharedWays::PartOfSum(double bytes_per_second, int members, double bytes, double seconds) {
  const double in_bytes = bytes * 2 * (members - 1) / members, can = bytes_per_second * seconds;
  if (!(can > 0) || !std::isfinite(can)) return 0;
  return PartOf(std::min(1.0, in_bytes / can));
}

void WaysWanted::Change(absl::Span<const WayPart> parts, int times) {
  for (const WayPart& of : parts) wanted_[of.way] += times * of.part;
}

double WaysWanted::Slowdown(absl::Span<const WayPart> parts) const {
  double slowdown = 1;
  for (const WayPart& of : parts) slowdown = std::max(slowdown, SharedWays::Slowdown(wanted_[of.way]));
  return slowdown;
}

}  // namespace medley
