#include "coordinator/problem/network.h"

#include <algorithm>
#include <map>
#include <utility>

namespace medley {

void SetNetwork(const std::vector<NodeNetwork>& networks, PlanningProblem& problem) {
  std::map<int, int> cards;
  std::map<std::string, int> sites;
  std::map<std::pair<std::string, std::string>, int> racks;
  for (size_t d = 0; d < networks.size(); ++d) {
    DeviceCost& cost = problem.devices[d];
    int& most = cards[cost.host];
    most = std::max(most, networks[d].network_cards);
    const auto [site, is_new] = sites.emplace(networks[d].site, static_cast<int>(sites.size()));
    if (is_new) problem.site_names.push_back(networks[d].site);
    cost.site = site->second;
    cost.rack = racks.emplace(std::pair(networks[d].site, networks[d].rack), static_cast<int>(racks.size()))
                    .first->second;
  }
  for (DeviceCost& cost : problem.devices) cost.network_cards = cards[cost.host];
}

}  // namespace medley
