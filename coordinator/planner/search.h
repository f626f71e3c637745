#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/planner/orders.h"
#include "coordinator/planner/planner.h"
#include "coordinator/planner/route_bounds.h"
#include "coordinator/planner/search_tables.h"
#include "coordinator/planner/sharing.h"
#include "coordinator/predictor/reductions.h"
#include "coordinator/predictor/step_simulator.h"

namespace medley {

// Which plans are searched, beside the problem's own constraints.
struct SearchSpace {
  int min_routes = 1, max_routes = 1 << 20;
  int min_stages = 1, max_stages = 1 << 20;  // of every route
};

// Branch and bound over arrangements (micro-batch size, schedule, lists of devices), then over how many
// micro-batches each route takes, then over the splits of the routes' blocks. One use.
class Search {
 public:
  // `problem` must be valid (CheckProblem) and outlive the search.
  Search(const PlanningProblem& problem, const SearchSpace& space, const SearchLimits& limits);
  // Over units of several of the devices of `problem`; all must outlive the search. What it takes for bounds
  // are no bounds then: it proves nothing.
  Search(const PlanningProblem& problem, const UnitProblem& units, const SearchLimits& limits);

  // ResourceExhausted: no plan of the space fits.
  absl::StatusOr<ChosenPlan> Run();

  // The best plans with pipelines that Run simulated, fastest first: of each choice of devices and of a
  // micro-batch size one, and at most kBestPipelines.
  const std::vector<PredictedPlan>& best_pipelines() const { return best_pipelines_; }

  // Whether Run would find one, as far as memory is concerned: takes no simulation. Instead of Run.
  bool Fits();

 private:
  struct Arrangement {
    int size = 0;
    Schedule schedule = Schedule::kOneForwardOneBackward;
    std::vector<int> lists;                 // one a route
    std::vector<std::vector<int>> devices;  // of each list
    int units = 0;
    bool shares_processor = false;  // two of its units do
    // What a route takes alone bounds from below when its last backwards end: no unit shares a processor, and
    // where units slow each other down no two messages do, for a message that comes late may let another one
    // pass.
    bool bounded_alone = true;
    double tied_seconds = 0;     // of reducing the tied embedding, at least
    double scalars_seconds = 0;  // of reducing the scalars
    double bound_seconds = 0;

    double fixed_seconds() const { return tied_seconds + scalars_seconds; }  // after every route's bound
  };
  struct RouteChoice {
    int micro_batches = 0;
    std::vector<BlockId> ends;  // of the stages' blocks
    BlockRange blocks(size_t stage) const { return {stage == 0 ? BlockId(0) : ends[stage - 1], ends[stage]}; }
    friend bool operator==(const RouteChoice&, const RouteChoice&) = default;
  };
  // How a list that is being written stands to the one before it.
  enum class Order { kBeginsPrevious, kAfterPrevious };
  using Lists = std::vector<std::vector<int>>;  // of device classes

  // Arrangements: search_arrangements.cc.
  void EnumerateLists(Lists& lists, std::vector<int>& left, std::vector<Arrangement>& found);
  void ExtendList(Lists& lists, std::vector<int>& list, Order order, std::vector<int>& left,
                  std::vector<Arrangement>& found);
  Arrangement Arrange(const Lists& lists);
  bool WorthBounding(const Arrangement& arrangement);
  std::vector<int> BestCounts(const Arrangement& arrangement);
  static void SortByBound(std::vector<Arrangement>& arrangements);
  void AddArrangements(const Lists& lists, std::vector<Arrangement>& found);

  // A first plan, and better ones near it.
  std::vector<Arrangement> ObviousArrangements();
  void TryObviousLists();
  std::vector<RouteChoice> GreedyChoice(const Arrangement& arrangement);
  void Improve(const Arrangement& arrangement);

  // Exact search: search_exact.cc; false if it ended at a limit.
  bool SearchArrangement(const Arrangement& arrangement, int64_t simulations);
  std::vector<std::vector<int>> CountsBelow(const Arrangement& arrangement, double below);
  bool SearchCounts(const Arrangement& arrangement, const std::vector<int>& counts);
  struct Choosing;
  void ChooseSplits(Choosing& choosing, size_t next);
  void AddLastBackwards(Choosing& choosing, size_t route);
  void TryNumberings(Choosing& choosing);
  void TryNumbering(Choosing& choosing, const std::vector<int>& order);
  double BoundOfChoice(const Arrangement& arrangement, const std::vector<RouteChoice>& choice);

  double Bound(const Arrangement& arrangement, size_t route, int micro_batches);
  RouteBounds::Work WorkOf(const Arrangement& arrangement, size_t route, int micro_batches) const;
  const std::vector<double>& LastBackwards(const Arrangement& arrangement, size_t route,
                                           const RouteChoice& choice);
  double Simulate(const Arrangement& arrangement, const std::vector<RouteChoice>& choice,
                  const std::vector<int>& order);
  void KeepPipeline(const Plan& plan, double seconds);
  Plan PlanOf(const Arrangement& arrangement, const std::vector<RouteChoice>& choice,
              const std::vector<int>& order) const;
  // A plan with so many units must be predicted below this to be taken.
  double Below(int units) const;
  bool OutOfBudget() const;
  bool EnoughLists() const;
  int64_t SpentInstructions() const;
  double LayersSharedPerfectlySeconds() const;

  Search(const PlanningProblem& problem, const PlanningProblem& simulated,
         const std::vector<SharedUnit>& units, const SearchSpace& space, const SearchLimits& limits);

  const PlanningProblem& problem_;
  const std::vector<SharedUnit> units_;  // parallel to the problem's devices; none: they are devices
  SearchSpace space_;
  const SearchLimits limits_;
  Reductions reductions_;
  SearchTables tables_;
  RouteBounds bounds_;
  const PlanningProblem& simulated_;                        // `problem_`, or that of the units' devices
  const std::unique_ptr<Reductions> simulated_reductions_;  // null: reductions_
  StepSimulator simulator_;
  // `simulated_` where nothing slows anything else down: what bounds are made of.
  const PlanningProblem unslowed_;
  StepSimulator unslowed_simulator_;
  std::map<std::vector<int>, std::vector<double>> last_backwards_;
  ChosenPlan best_;  // no units: none yet
  std::vector<PredictedPlan> best_pipelines_;
  int64_t arrangement_limit_ = 0;  // simulated_plans at which the present arrangement is left
  int64_t device_lists_ = 0;       // looked at
  int64_t evaluated_ = 0;          // cheap evaluations, in simulated instructions' worth
};

}  // namespace medley
