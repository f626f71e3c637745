#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "coordinator/planner/memory_shortage.h"
#include "coordinator/planner/search.h"
#include "coordinator/predictor/work_bound.h"
#include "runtime/base/counted.h"

// The course of the search, and what it may spend.
namespace medley {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Sums of the same times in another order differ by less than this, relatively.
constexpr double kRounding = 1e-12;
// Simulations that an arrangement gets before the others have had theirs.
constexpr int64_t kFirstVisit = 200;
// Arrangements, best bound first, near which a good plan is looked for before the exact search.
constexpr size_t kImproved = 30;
// Stages that bounds look at, in all what one simulated instruction costs; and what choosing a reduction costs for
// each member, in simulated instructions.
constexpr int64_t kStagesAnInstruction = 40, kChoiceInstructions = 50;

PlanningProblem Unslowed(PlanningProblem problem) {
  for (DeviceCost& device : problem.devices) device.shared_slowdown = device.shared_update_slowdown = 1;
  return problem;
}

SearchTables::UnitRanks RanksOf(const PlanningProblem& problem, const std::vector<SharedUnit>& units) {
  SearchTables::UnitRanks ranks;
  for (const SharedUnit& unit : units) {
    std::vector<SearchTables::UnitRank>& of_unit = ranks.emplace_back();
    for (size_t m = 0; m < unit.devices.size(); ++m) {
      const DeviceCost& device = problem.devices[unit.devices[m]];
      const std::optional<RankCosts> costs = CostsOf(device, problem.shape.model, unit.shares[m]);
      of_unit.push_back({unit.shares[m], costs ? costs->room : device.room.LimitsAlone()});
    }
  }
  return ranks;
}

}  // namespace

Search::Search(const PlanningProblem& problem, const SearchSpace& space, const SearchLimits& limits)
    : Search(problem, problem, {}, space, limits) {}

Search::Search(const PlanningProblem& problem, const UnitProblem& units, const SearchSpace& space,
               const SearchLimits& limits)
    : Search(units.problem, problem, units.units, space, limits) {}

Search::Search(const PlanningProblem& problem, const PlanningProblem& simulated,
               const std::vector<SharedUnit>& units, const SearchSpace& space, const SearchLimits& limits)
    : problem_(problem),
      units_(units),
      space_(space),
      limits_(limits),
      reductions_(problem),
      tables_(problem, reductions_, RanksOf(simulated, units), space.saving),
      bounds_(tables_),
      simulated_(simulated),
      simulated_reductions_(units.empty() ? nullptr : std::make_unique<Reductions>(simulated)),
      simulator_(simulated, units.empty() ? reductions_ : *simulated_reductions_),
      unslowed_(Unslowed(simulated)),
      unslowed_simulator_(unslowed_, units.empty() ? reductions_ : *simulated_reductions_) {
  const PlanConstraints& constraints = problem.constraints;
  if (constraints.max_routes > 0) space_.max_routes = std::min(space_.max_routes, constraints.max_routes);
  if (constraints.max_stages > 0) space_.max_stages = std::min(space_.max_stages, constraints.max_stages);
  space_.max_stages = std::min(space_.max_stages, tables_.blocks());
  for (int c = 0; c < static_cast<int>(tables_.classes().size()); ++c)
    holds_a_block_.push_back(HoldsABlock(c));
}

// Devices that hold no block are in no list, so no bound has looked at them.
bool Search::memory_binds() const {
  return bounds_.memory_binds() ||
         std::find(holds_a_block_.begin(), holds_a_block_.end(), false) != holds_a_block_.end();
}

absl::StatusOr<ChosenPlan> Search::RunFrom(const ChosenPlan& kept,
                                           const std::vector<PredictedPlan>& pipelines) {
  is_kept_best_ = true;
  best_ = kept;
  best_.simulated_plans = 0;
  best_pipelines_ = pipelines;
  return Run();
}

absl::StatusOr<ChosenPlan> Search::Run() {
  arrangement_limit_ = limits_.max_simulations;
  TryObviousLists();
  std::vector<Arrangement> arrangements;
  Lists lists;
  std::vector<int> left;
  for (const std::vector<int>& members : tables_.classes()) left.push_back(static_cast<int>(members.size()));
  EnumerateLists(lists, left, arrangements);
  double unfinished_bound = EnoughLists() ? WorkSeconds(problem_) : kInfinity;
  unfinished_bound = std::min(unfinished_bound, SearchAll(arrangements));
  unfinished_bound = std::min(unfinished_bound, SearchUnlikeSizes());
  if (best_.plan.units.empty()) {
    if (limits_.stopped()) return absl::CancelledError("planning was stopped before it had found a plan");
    if (unfinished_bound < kInfinity) {
      const MemoryShortage shortage = Shortage();
      return absl::DeadlineExceededError(absl::StrCat(
          "planning ended at its limit before it had found a plan that fits; whether one does is not known (",
          Counted(device_lists_, "way"), " to form routes of ", Counted(problem_.devices.size(), "device"),
          device_lists_ == 1 ? " was looked at" : " were looked at",
          shortage.bytes > 0 ? absl::StrCat("; ", DescribeShortage(tables_, shortage)) : "", ")"));
    }
    if (problem_.constraints.limit_devices())
      return absl::ResourceExhaustedError("none fits on devices that the constraints allow");
    return absl::ResourceExhaustedError(DescribeShortage(tables_, Shortage()));
  }
  if (!units_.empty()) return best_;
  if (passed_over_) unfinished_bound = std::min(unfinished_bound, WorkSeconds(problem_));
  best_.proven_optimal = unfinished_bound >= best_.step_seconds * (1 - kRounding);
  best_.lower_bound_seconds = best_.proven_optimal ? best_.step_seconds : unfinished_bound;
  return best_;
}

double Search::SearchAll(std::vector<Arrangement>& arrangements) {
  arrangement_limit_ = limits_.max_simulations;
  arrangement_instructions_ = 0;
  SortByBound(arrangements);
  for (size_t a = 0; a < std::min(arrangements.size(), kImproved); ++a) {
    if (arrangements[a].bound_seconds < Below(arrangements[a].units)) Improve(arrangements[a]);
  }

  // Best bound first: a little of each, then all of those that were not done.
  double unfinished_bound = kInfinity;
  std::vector<const Arrangement*> waiting;
  for (const Arrangement& arrangement : arrangements) {
    if (arrangement.bound_seconds >= Below(arrangement.units)) continue;
    if (!SearchArrangement(arrangement, kFirstVisit)) waiting.push_back(&arrangement);
  }
  for (const Arrangement* arrangement : waiting) {
    if (arrangement->bound_seconds >= Below(arrangement->units)) continue;
    if (SearchArrangement(*arrangement, limits_.max_simulations)) continue;
    unfinished_bound = std::min(unfinished_bound, arrangement->bound_seconds);
  }
  return unfinished_bound;
}

// Plans with unlike micro-batch sizes need no less memory than those with the smallest one for all.
bool Search::Fits() {
  // Only arrangements with a split that fits have a bound.
  if (!ObviousArrangements().empty()) return true;
  std::vector<Arrangement> found;
  Lists lists;
  std::vector<int> left;
  for (const std::vector<int>& members : tables_.classes()) left.push_back(static_cast<int>(members.size()));
  EnumerateLists(lists, left, found);
  return !found.empty();
}

MemoryShortage Search::Shortage() {
  return LeastShortage(tables_, std::min<int>(space_.min_stages, static_cast<int>(problem_.devices.size())),
                       space_.max_stages);
}

int64_t Search::SpentInstructions() const {
  return simulator_.simulated_instructions() + unslowed_simulator_.simulated_instructions() + evaluated_ +
         kChoiceInstructions * reductions_.chosen_members() + bounds_.looked_at() / kStagesAnInstruction;
}

// What is not enumerated is not searched, so the search keeps a part of what may be spent.
bool Search::EnoughLists() const {
  return limits_.stopped() || device_lists_ >= limits_.max_device_lists ||
         SpentInstructions() >= limits_.max_simulated_instructions * 3 / 4;
}

bool Search::OutOfBudget() const {
  if (limits_.stopped()) return true;
  const int64_t spent = SpentInstructions();
  return best_.simulated_plans >= limits_.max_simulations || best_.simulated_plans >= arrangement_limit_ ||
         (arrangement_instructions_ > 0 && spent >= arrangement_instructions_) ||
         spent >= limits_.max_simulated_instructions;
}

}  // namespace medley
