// Prints how far chosen plans are from the best of all plans of small random problems, one "key value" a line.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>

#include "coordinator/planner/brute_force.h"
#include "coordinator/planner/every_way.h"
#include "coordinator/planner/planner.h"
#include "coordinator/planner/random_problem.h"

namespace medley {
namespace {

constexpr uint64_t kFirstSeed = 10'000;
constexpr int kProblems = 200;
constexpr int64_t kMostPlans = 100'000, kMostPlansToSave = 1200;

struct Regret {
  int problems = 0, passed_over = 0, none_fits = 0, saving = 0, unlike_sizes = 0;
  double sum = 0, worst = 0;
};

// Of a problem with plenty of memory or little; none: it has more plans than are tried, or none that fits.
void Add(const PlanningProblem& problem, std::optional<double> least, bool complete, Regret& regret) {
  if (!complete) {
    ++regret.passed_over;
    return;
  }
  ++regret.problems;
  const absl::StatusOr<ChosenPlan> chosen = ChoosePlan(problem);
  if (!least.has_value()) {
    ++regret.none_fits;
    return;
  }
  const double over = chosen.ok() ? std::max(0.0, chosen->step_seconds / *least - 1) : 1;
  regret.sum += over < 1e-9 ? 0 : over;  // sums of the same times in another order
  regret.worst = std::max(regret.worst, over < 1e-9 ? 0 : over);
  if (!chosen.ok()) return;
  regret.saving += !chosen->fitting.empty();
  const std::vector<Route>& routes = chosen->plan.routes;
  regret.unlike_sizes += std::any_of(routes.begin(), routes.end(), [&](const Route& route) {
    return route.micro_batch_sequences != routes[0].micro_batch_sequences;
  });
}

// Two or three devices with little memory and copies to hosts, in every way to save memory; or two to six with enough.
void AddProblem(uint64_t seed, Regret& regret) {
  if (seed % 2 == 0) {
    PlanningProblem problem = seed % 4 == 0 ? TightProblem(seed, {.min_devices = 2,
                                                                  .max_devices = 3,
                                                                  .max_layers = 3,
                                                                  .max_micro_batches = 4,
                                                                  .processors = RandomProcessors::kOwn,
                                                                  .hosts = RandomHosts::kOwn,
                                                                  .slowdowns = RandomSlowdowns::kNone,
                                                                  .memory = RandomMemory::kPlenty})
                                            : DeepProblem(seed, 2, 1.2);
    if (seed % 4 != 0) AddCopies(seed, problem);
    const EveryWay every = TryEveryWay(problem, kMostPlansToSave);
    return Add(problem, every.least_seconds, every.complete, regret);
  }
  const PlanningProblem problem = SmallProblem(seed);
  const BruteForce brute = LeastSeconds(problem, SameKind::kInOrder, kMostPlans);
  Add(problem, brute.least_seconds, brute.complete, regret);
}

}  // namespace
}  // namespace medley

int main() {
  medley::Regret regret;
  for (uint64_t seed = medley::kFirstSeed; regret.problems < medley::kProblems; ++seed)
    medley::AddProblem(seed, regret);
  std::printf("regret_small %.6f\n", regret.sum / regret.problems);
  std::printf("regret_small_worst %.6f\n", regret.worst);
  std::printf("regret_small_problems %d\n", regret.problems);
  std::printf("regret_small_passed_over %d\n", regret.passed_over);
  std::printf("regret_small_none_fits %d\n", regret.none_fits);
  std::printf("regret_small_saving %d\n", regret.saving);
  std::printf("regret_small_unlike_sizes %d\n", regret.unlike_sizes);
  return 0;
}
