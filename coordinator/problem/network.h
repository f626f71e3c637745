#pragma once
#include <string>
#include <vector>

#include "coordinator/predictor/cost_model.h"

namespace medley {

// What a device's node says of how it reaches others.
struct NodeNetwork {
  std::string site, rack;
  int network_cards = 0;  // of its machine; 0: not known
};

// Gives the devices of `problem`, whose hosts are known and of which `networks` are, numbers of their sites and racks and, by
// host, the most cards that one of its nodes says; and the problem the names of the sites. Racks of one name at two sites are two. Pure.
void SetNetwork(const std::vector<NodeNetwork>& networks, PlanningProblem& problem);

}  // namespace medley
