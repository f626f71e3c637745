#pragma once
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "runtime/ir/plan/plan.h"

namespace medley {

// Equal for sets of routes (RoutesThatMeet) whose units do the same in a step, were their devices the same, but for who counts
// the norms of what several hold and, where a set is one route, how many micro-batches it has.
std::string FormOf(const Plan& plan, const std::vector<int>& routes);

// Of each rank of a valid plan, one that does the same in a step and tells of all that do, of itself too: of the same place in the
// same unit of a set of routes of equal form, that answers for as much of norms. Programs of the two have the same instructions;
// shares of the optimizer's state may differ by an element of each slice. `also`: what else must be equal of two sets.
std::vector<Rank> StandInsOf(const Plan& plan,
                             absl::FunctionRef<std::string(const std::vector<int>& routes)> also);
// By form alone, whatever their devices.
std::vector<Rank> StandInsOf(const Plan& plan);

// Of so many ranks each tells of itself, exactly, where nobody needs all of them in a moment.
constexpr int kMostToldAlone = 256;

}  // namespace medley
