#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/planner/pareto.h"
#include "coordinator/planner/planner.h"
#include "runtime/ir/job/job_constraints.h"

namespace medley {

// What a job that is planned again has behind it.
struct JobSoFar {
  // Under which it has run: of plans that are as fast as the fastest, the one that changes least of it is chosen
  // (least_change.h), where throughput is the objective. No units: none.
  Plan plan;
  int64_t steps = 0;   // that it need not make again
  double seconds = 0;  // that all its steps took, those that were lost, too

  bool has_begun() const { return steps > 0 || seconds > 0; }
};

// What a plan is chosen for.
struct PlanGoal {
  Objective objective = Objective::kThroughput;
  int64_t steps = 1;            // of the job
  double deadline_seconds = 0;  // that they may take together; 0: as long as they take
  JobSoFar so_far;

  int64_t steps_left() const;  // 1 or more
  // Each of which may take so long. 0 or less: the deadline has passed.
  double slowest_step_seconds() const;
};

// Whether the list of time against price is wanted where no choice needs it.
enum class ParetoListing : uint8_t { kIfNeeded, kWanted };

struct PlanForGoal {
  ChosenPlan chosen;
  std::optional<ParetoList> list;  // that it was chosen from
  // Of a job that has begun and that no plan ends by its deadline any more: that, in words, of the fastest, which is chosen. Empty otherwise.
  std::string late;
};

// kThroughput: the fastest plan that the constraints allow, as ChoosePlan. kCost: of those that end by the deadline, the
// one with which the job's steps cost least, or the fastest of those that cost up to a per cent more, which is less than predictions are off by; it
// is called proven where the list is complete and none costs less. Deterministic. Pure.
// Errors, beside ChoosePlan's, each with what was given and what there is instead:
//   ResourceExhausted    no plan keeps constraints.most_price_per_hour (names the cheapest that was found) or
//                        most_devices (names the fewest), or the deadline of a job that has not begun (names the soonest end).
//                        One that has begun gets the fastest plan then: it would only be later if it waited.
//   FailedPrecondition   a price is limited, or the cost is to be least, and no device has one.
absl::StatusOr<PlanForGoal> ChoosePlanFor(const PlanGoal& goal, const PlanningProblem& problem,
                                          ParetoListing listing = ParetoListing::kIfNeeded,
                                          const SearchLimits& limits = {});

}  // namespace medley
