#include "coordinator/predictor/shared_ways.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "coordinator/predictor/cost_model.h"

namespace medley {
namespace {

int64_t PartOf(double share) {
  return share > 0 ? static_cast<int64_t>(share * static_cast<double>(SharedWays::kAll)) : 0;
}

}  // namespace

SharedWays::SharedWays(const PlanningProblem& problem) : ends_(problem.devices.size()) {
  std::map<int, int> hosts, sites;
  std::set<int> all_sites;
  for (const DeviceCost& device : problem.devices) all_sites.insert(device.site);
  for (size_t d = 0; d < problem.devices.size(); ++d) {
    const DeviceCost& device = problem.devices[d];
    if (device.host >= 0 && device.network_cards > 0)
      ends_[d].host = hosts.emplace(device.host, static_cast<int>(hosts.size())).first->second;
    if (all_sites.size() > 1)
      ends_[d].site = sites.emplace(device.site, static_cast<int>(sites.size())).first->second;
  }
  if (hosts.empty() && sites.empty()) return;
  hosts_.resize(hosts.size());
  sites_.resize(sites.size());
  const auto raise = [](Rate& rate, double sending, double summing) {
    rate.sending_bytes_per_second = std::max(rate.sending_bytes_per_second, sending);
    rate.summing_bytes_per_second = std::max(rate.summing_bytes_per_second, summing);
  };
  std::vector<Rate> fastest(problem.links.ends());  // of each end, to one on any other host
  for (const LinkedDevices& kind : KindsOfLinks(problem)) {
    if (kind.within_host) continue;
    const LinkCost& link = problem.links.Between(kind.a, kind.b);
    const double sending = link.transfer.BytesPerSecond(), summing = link.exchange.BytesPerSecond();
    for (const int d : {kind.a, kind.b}) {
      raise(fastest[problem.links.EndOf(d)], sending, summing);
      if (ends_[kind.a].site != ends_[kind.b].site) raise(sites_[ends_[d].site], sending, summing);
    }
  }
  for (size_t d = 0; d < problem.devices.size(); ++d) {
    if (ends_[d].host < 0) continue;
    const Rate& of_end = fastest[problem.links.EndOf(static_cast<int>(d))];
    const int cards = problem.devices[d].network_cards;
    raise(hosts_[ends_[d].host], cards * of_end.sending_bytes_per_second,
          cards * of_end.summing_bytes_per_second);
  }
}

SharedWays SharedWays::Among(const std::vector<int>& devices,
                             const std::vector<MessagesAtOnce>& at_once) const {
  SharedWays among;
  std::map<int, int> hosts, sites;
  const auto number = [](int known, std::map<int, int>& numbers, const std::vector<Rate>& all,
                         std::vector<Rate>& some) {
    if (known < 0) return known;
    const auto [place, is_new] = numbers.emplace(known, static_cast<int>(numbers.size()));
    if (is_new) some.push_back(all[known]);
    return place->second;
  };
  for (size_t i = 0; i < devices.size(); ++i) {
    const End& end = ends_[devices[i]];
    among.ends_.push_back({number(end.host, hosts, hosts_, among.hosts_),
                           number(end.site, sites, sites_, among.sites_),
                           at_once.empty() ? end.at_once : at_once[i]});
  }
  return among;
}

template <typename Visit>
void SharedWays::ForEachWay(int from, const AtOnce& sent, int to, const AtOnce& received,
                            double bytes_per_second, const Visit& visit) const {
  const End &sender = ends_[from], &receiver = ends_[to];
  const auto take = [&](int way, const Rate& of, double at_once) {
    const double part = bytes_per_second / of.sending_bytes_per_second;
    if (std::isfinite(part)) visit(way, PartOf(part * at_once));
  };
  const bool within = sender.host >= 0 && sender.host == receiver.host;
  if (sender.host >= 0 && !within) take(WayOfHost(sender.host, false), hosts_[sender.host], sent.at_host);
  if (receiver.host >= 0 && !within)
    take(WayOfHost(receiver.host, true), hosts_[receiver.host], received.at_host);
  if (sender.site == receiver.site) return;
  take(WayOfSite(sender.site, false), sites_[sender.site], sent.at_site);
  take(WayOfSite(receiver.site, true), sites_[receiver.site], received.at_site);
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
  std::vector<int> hosts, sites;
  int alone = 0;  // of devices with cards of their own, none
  const auto insert = [](std::vector<int>& all, int one) {
    if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
  };
  for (const int device : devices) {
    const End& end = ends_[device];
    if (end.host < 0) ++alone;
    if (end.host >= 0) insert(hosts, end.host);
    if (end.site >= 0) insert(sites, end.site);
  }
  const auto add = [&](int way, const Rate& of, int members) {
    const int64_t part = PartOfSum(of.summing_bytes_per_second, members, bytes, seconds);
    for (const int both : {way, way + 1}) parts.push_back({both, part});
  };
  const int members = alone + static_cast<int>(hosts.size());
  if (members > 1) {
    for (const int host : hosts) add(WayOfHost(host, false), hosts_[host], members);
  }
  if (sites.size() > 1) {
    for (const int site : sites) add(WayOfSite(site, false), sites_[site], static_cast<int>(sites.size()));
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
