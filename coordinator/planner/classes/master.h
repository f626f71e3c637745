#pragma once
#include <cstdint>
#include <vector>

namespace medley {

// How many routes of each shape: what they are worth together is to be as much as possible, with no more devices of
// any class than there are, and no more of whatever else is limited. Solved by Clp and Cbc (COIN-OR). Pure and deterministic.
struct MasterColumn {
  std::vector<double> uses;  // of each resource, such as devices of a class; none negative, one positive
  double value = 0;          // sequences of a step
};

struct MasterRelaxation {
  std::vector<double> amounts;  // of each column, fractions too
  std::vector<double> prices;   // of each resource: what one more would add
  double route_price = 0;       // and one more route
  double value = 0;
};

// Of fractions of routes, at most `most_routes` in all.
MasterRelaxation SolveRelaxed(const std::vector<MasterColumn>& columns, const std::vector<double>& limits,
                              int most_routes);

// Of whole routes; stops as soon as `enough` is reached, and after so
// many nodes of its search. Empty: it found none that reaches it.
std::vector<int> SolveWhole(const std::vector<MasterColumn>& columns, const std::vector<double>& limits,
                            int most_routes, double enough, int most_nodes);

}  // namespace medley
