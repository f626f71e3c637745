#pragma once
#include <atomic>
#include <vector>

#include "coordinator/planner/classes/deal_micro_batches.h"
#include "coordinator/planner/classes/sum_model.h"

namespace medley {

// Plans of so many routes that are all alike, and in which each layer is on devices of one class in all of them: the fastest that
// local searches find, the best first, at most `most_plans`. Each route has as many devices of a class as there are for each, one stage after another, and classes
// follow each other in some order; or none of it. A layer's gradients are then summed over the links and cards of one class, and no
// class keeps the others waiting for layers that it does not hold. Pricing shapes one by one (price_shapes.h) does not see that:
// sums depend on all routes together.
//
// Estimated without their sums. None: none was found that fits, or `stop` is true, which may be null. Pure and deterministic.
std::vector<ClassedPlan> PlansOfZones(StageTable& table, int routes, int most_stages, size_t most_plans,
                                      const std::atomic<bool>* stop);

// The same for passes in any order, and also of bundles (RouteShape), so many of which are all alike: a class has fewer stages, and several
// units side by side on each. Of whole layers and whole devices on each route much is left over where classes are unlike in number and
// speed; of several units' turns on the same layers less is, but then each has more layers to sum. `sums`: over each class
// (StageTimes::classes).
//
// Estimated by what they take in any order, with their sums (OrderedReplicas).
std::vector<ClassedPlan> PlansOfOrderedZones(StageTable& table, SumsOfClasses& sums, int bundles,
                                             int most_stages, size_t most_plans,
                                             const std::atomic<bool>* stop);

// Numbers of routes that are worth such plans, the most first: of each octave those with which most of what the devices do is used.
// `rates`: what all devices of each class do together.
std::vector<int> CountsForZones(const std::vector<DeviceClass>& classes, const std::vector<double>& rates,
                                int most_routes);

}  // namespace medley
