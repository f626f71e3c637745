#pragma once
#include <random>
#include <vector>

#include "runtime/ir/collective/collective_choice.h"
#include "runtime/ir/collective/collective_problem.h"

// For tests: what a seed gives.
namespace medley {

using Random = std::mt19937_64;

int RandomBelow(Random& random, int bound);

// Any order, up to three levels, shares some of which are zero; each left out now and then.
GroupShape RandomShape(Random& random, int members);

// Any algorithm; levels for kHierarchical alone.
CollectiveChoice RandomChoice(Random& random, int members);

// Numbers whose float sums depend on the order.
std::vector<float> RandomFloats(Random& random, int64_t count);

// Sites of hosts of members with links as unlike as they are found: owns what `problem` points to.
struct RandomProblem {
  std::vector<LinkCost> kinds;  // inside a host, a site, across
  CollectiveProblem problem;
};
RandomProblem MakeRandomProblem(Random& random, int members, int64_t elements);

}  // namespace medley
