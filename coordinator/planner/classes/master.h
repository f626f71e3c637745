#pragma once
#include <cstdint>
#include <vector>

namespace medley {

// How many routes of each shape: what they are worth together is to be as much as possible, with no more devices of
// any class than there are, and no more of whatever else is limited. Solved by Clp and Cbc (COIN-OR). Pure and deterministic,
// but that the process keeps memory that it frees from the first one on.
struct MasterColumn {
  std::vector<double> uses;  // of each resource, such as devices of a class; none negative, one positive
  double value = 0;          // sequences of a step
};

struct MasterRelaxation {
  std::vector<double> amounts;  // of each column, fractions too
  std::vector<double> prices;   // of each resource: what one more would add
  double route_price = 0;       // and one more route; negative where more have to be than are worth it
  double value = 0;
};

// How many routes there are to be in all.
struct RouteCount {
  int least = 0, most = 0;
};

// Of fractions of routes. Worth nothing, without prices: there cannot be so many routes.
MasterRelaxation SolveRelaxed(const std::vector<MasterColumn>& columns, const std::vector<double>& limits,
                              RouteCount routes);

// Of whole routes; stops as soon as `enough` is reached, and after so many nodes of its search. Empty: it found none that
// reaches it.
std::vector<int> SolveWhole(const std::vector<MasterColumn>& columns, const std::vector<double>& limits,
                            RouteCount routes, double enough, int most_nodes);

}  // namespace medley
