#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/planner/memory_shortage.h"
#include "coordinator/planner/planner.h"
#include "coordinator/planner/route_bounds.h"
#include "coordinator/planner/search_tables.h"
#include "coordinator/planner/techniques/memory_saving.h"
#include "coordinator/planner/techniques/orders.h"
#include "coordinator/planner/techniques/sharing.h"
#include "coordinator/predictor/reductions.h"
#include "coordinator/predictor/step_simulator.h"

namespace medley {

// Which plans are searched, beside the problem's own constraints.
struct SearchSpace {
  int min_routes = 1, max_routes = 1 << 20;
  int min_stages = 1, max_stages = 1 << 20;  // of every route
  // Of plans that recompute: those of which each unit recomputes what takes the least time of what fits;
  // where the optimizer's state is shared or layers live in host memory, whatever fits together. Of plans that
  // share it: those with the weights of OptimizerSharding. Of those with layers in host memory: those of units
  // that do not fit as they are, with the fewest windows or as many as fit beside all of the optimizer's state.
  MemorySaving saving;
};

// Branch and bound over arrangements (schedule, lists of devices with a micro-batch size each), then over how many
// micro-batches each route takes, then over the splits of the routes' blocks. One use.
class Search {
 public:
  // `problem` must be valid (CheckProblem) and outlive the search.
  Search(const PlanningProblem& problem, const SearchSpace& space, const SearchLimits& limits);
  // Over units of several of the devices of `problem`; all must outlive the search. What it takes for bounds
  // are no bounds then: it proves nothing.
  Search(const PlanningProblem& problem, const UnitProblem& units, const SearchSpace& space,
         const SearchLimits& limits);

  // ResourceExhausted: no plan of the space fits. DeadlineExceeded: another limit ended the search before one was
  // found, so that one may fit. Cancelled: limits.stop was set before one was found.
  absl::StatusOr<ChosenPlan> Run();

  // The same for `kept`, the best plan of those that save nothing: of those that save, only such are searched
  // that do not fit otherwise, and `kept` is returned if none is faster.
  absl::StatusOr<ChosenPlan> RunFrom(const ChosenPlan& kept, const std::vector<PredictedPlan>& pipelines);

  // Whether memory kept Run from any plan that would else have been worth looking at.
  bool memory_binds() const;
  // What Run has spent, in simulated instructions.
  int64_t SpentInstructions() const;

  // The best plans with pipelines that Run simulated, fastest first: of each choice of devices and of a
  // micro-batch size one, and at most kBestPlans.
  const std::vector<PredictedPlan>& best_pipelines() const { return best_pipelines_; }
  // Plans of several routes that share no optimizer's state, where constraints allow that; likewise.
  const std::vector<PredictedPlan>& best_replicas() const { return best_replicas_; }

  // Whether Run would find one, as far as memory is concerned: takes no simulation. Instead of Run. Where the
  // optimizer's state may be shared it can say so of plans whose units would fit each by itself.
  bool Fits();

  // Of what MemoryShortage::device_class says.
  const DeviceCost& DeviceOf(int device_class) const { return tables_.Cost(device_class); }
  // Of the attempts to fit, the one that lacks least memory. Instead of Run.
  MemoryShortage Shortage();

 private:
  struct Arrangement {
    // Of each route's micro-batches, indices into micro_batch_sizes; empty: any that are not all alike.
    std::vector<int> sizes;
    Schedule schedule = Schedule::kOneForwardOneBackward;
    bool shards_optimizer = false;
    bool homes_layers = false;              // those of some unit live in host memory
    std::vector<int> lists;                 // one a route
    std::vector<std::vector<int>> devices;  // of each list
    int units = 0;
    bool shares_processor = false;  // two of its units do
    // What a route takes alone bounds from below when its last backwards end: no unit shares a processor, and
    // where units slow each other down no two messages do, for a message that comes late may let another one
    // pass; nor is the optimizer's state shared or do layers live in host memory, for how units save memory is then
    // no matter of a route alone.
    bool bounded_alone = true;
    double tied_seconds = 0;         // of reducing the tied embedding, at least
    double shared_tied_seconds = 0;  // the same where the optimizer's state is shared in any parts
    double scalars_seconds = 0;      // of reducing the scalars
    double bound_seconds = 0;

    double fixed_seconds() const { return tied_seconds + scalars_seconds; }  // after every route's bound
  };
  struct RouteChoice {
    int micro_batches = 0;
    std::vector<BlockId> ends;  // of the stages' blocks
    BlockRange blocks(size_t stage) const { return {stage == 0 ? BlockId(0) : ends[stage - 1], ends[stage]}; }
    friend bool operator==(const RouteChoice&, const RouteChoice&) = default;
  };
  // What the lists that are being written take.
  struct Taken {
    int devices = 0;
    double price_per_hour = 0;
  };
  // Whether a device of a class has memory for any block, at any stage of any route, with all that may be saved.
  bool HoldsABlock(int device_class);
  // Whether a route of such classes has memory for one micro-batch of some size, with all that may be saved.
  bool FitsAlone(const std::vector<int>& list);
  // `taken` and one more of a class; false: the constraints do not allow that.
  bool Take(int device_class, Taken& taken) const;
  // How a list that is being written stands to the one before it.
  enum class Order { kBeginsPrevious, kAfterPrevious };
  using Lists = std::vector<std::vector<int>>;  // of device classes

  // Arrangements: search_arrangements.cc.
  void EnumerateLists(Lists& lists, std::vector<int>& left, std::vector<Arrangement>& found);
  void ExtendList(Lists& lists, std::vector<int>& list, Order order, std::vector<int>& left,
                  std::vector<Arrangement>& found);
  Arrangement Arrange(const Lists& lists);
  int SequencesOf(const Arrangement& arrangement, size_t route) const {
    return problem_.micro_batch_sizes[arrangement.sizes[route]];
  }
  int MostMicroBatches(const Arrangement& arrangement, size_t route) const;
  int MostMicroBatchesBelow(const Arrangement& arrangement, size_t route, int limit, double below);
  void TakeMany(const Arrangement& arrangement, std::vector<int>& counts, int& left);
  bool WorthBounding(const Arrangement& arrangement);
  double LeastSeconds(const Arrangement& arrangement);
  int MostSequences(const Arrangement& arrangement, size_t route, size_t level);
  double LeastSecondsOfAnySizes(const Arrangement& arrangement);
  std::vector<int> BestCounts(const Arrangement& arrangement);
  static void SortByBound(std::vector<Arrangement>& arrangements);
  void AddArrangements(const Lists& lists, std::vector<Arrangement>& found);
  void AddOfSizes(const Lists& lists, Arrangement arrangement, std::vector<Arrangement>& found);
  bool GiveUnlikeSizes(Arrangement& arrangement, int64_t end_instructions, std::vector<Arrangement>& found);
  void AddArrangement(Arrangement arrangement, std::vector<Arrangement>& found);
  void AddWithHomes(Arrangement arrangement, std::vector<Arrangement>& found);
  bool CanShardOptimizer(const Lists& lists) const;

  // A first plan, and better ones near it.
  std::vector<Arrangement> ObviousArrangements();
  void AddObvious(std::vector<int> order, std::vector<Arrangement>& obvious);
  std::set<std::vector<int>> OfHosts(const std::vector<int>& order) const;
  void TryObviousLists();
  void TryAlone();
  std::vector<RouteChoice> GreedyChoice(const Arrangement& arrangement);
  void Improve(const Arrangement& arrangement);

  // Both return the least bound of what a limit kept them from.
  double SearchAll(std::vector<Arrangement>& arrangements);
  double SearchUnlikeSizes();
  // Exact search: search_exact.cc; false if it ended at a limit.
  bool SearchArrangement(const Arrangement& arrangement, int64_t simulations);
  std::vector<std::vector<int>> CountsBelow(const Arrangement& arrangement, double below);
  bool SearchCounts(const Arrangement& arrangement, const std::vector<int>& counts);
  struct Choosing;
  void ChooseSplits(Choosing& choosing, size_t next);
  void AddLastBackwards(Choosing& choosing, size_t route);
  void TryNumberings(Choosing& choosing);
  void TryNumbering(Choosing& choosing, const std::vector<int>& order);
  // Of the routes that are alike but for their numbers, the first.
  static int FirstAlike(const Arrangement& arrangement, const std::vector<RouteChoice>& choice, int route);
  // Whether it is the first of all orders that TryNumberings tries.
  static bool IsFirstNumbering(const Arrangement& arrangement, const std::vector<RouteChoice>& choice,
                               const std::vector<int>& order);
  double BoundOfChoice(const Arrangement& arrangement, const std::vector<RouteChoice>& choice);

  // Plans that share the optimizer's state, or have layers in host memory: search_saving.cc.
  double SimulateSaving(const Arrangement& arrangement, const std::vector<RouteChoice>& choice,
                        const std::vector<int>& order);
  double BoundOfSavings(const Arrangement& arrangement, const std::vector<RouteChoice>& choice,
                        const std::vector<int>& order, const std::vector<UnitSaving>& savings) const;
  // Whether the hosts have memory for all layers that live there.
  bool FitHosts(const Arrangement& arrangement, const std::vector<RouteChoice>& choice,
                const std::vector<int>& order, const std::vector<UnitSaving>& savings) const;
  // What OptimizerSharding asks about each rank's room.
  void TellRooms(const Arrangement& arrangement, const std::vector<RouteChoice>& choice,
                 const std::vector<int>& order, OptimizerSharding& sharding);
  bool FitsAsItIs(const Arrangement& arrangement, const std::vector<RouteChoice>& choice);
  bool KnowsRooms(const Arrangement& arrangement) const;
  double SharedElements(const Arrangement& arrangement) const;
  double RoomForShared(const Arrangement& arrangement, size_t route, const RouteChoice& choice);
  bool HaveRoomTogether(const Arrangement& arrangement, const std::vector<RouteChoice>& choice);
  // Keeps those that leave enough beside some split of each other route.
  void DropSplitsWithoutRoom(const Arrangement& arrangement, const std::vector<int>& counts,
                             std::vector<std::vector<RouteBounds::Split>>& splits);

  double Bound(const Arrangement& arrangement, size_t route, int micro_batches);
  RouteBounds::Work WorkOf(const Arrangement& arrangement, size_t route, int micro_batches) const;
  const std::vector<double>& LastBackwards(const Arrangement& arrangement, size_t route,
                                           const RouteChoice& choice);
  double Simulate(const Arrangement& arrangement, const std::vector<RouteChoice>& choice,
                  const std::vector<int>& order);
  double Simulate(Plan plan, int units);
  // Of each set of devices, in their order, and sizes the fastest; of these the fastest.
  static void KeepAmong(std::vector<PredictedPlan>& best, const Plan& plan, double seconds);
  Plan PlanOf(const Arrangement& arrangement, const std::vector<RouteChoice>& choice,
              const std::vector<int>& order);
  // Of a unit of several devices, which `problem_` has as one.
  int PartsFor(int device, const Unit& unit, int sequences);
  // A plan with so many units must be predicted below this to be taken.
  double Below(int units) const;
  bool OutOfBudget() const;
  bool EnoughLists() const;

  Search(const PlanningProblem& problem, const PlanningProblem& simulated,
         const std::vector<SharedUnit>& units, const SearchSpace& space, const SearchLimits& limits);

  const PlanningProblem& problem_;
  const std::vector<SharedUnit> units_;  // parallel to the problem's devices; none: they are devices
  SearchSpace space_;
  SearchLimits limits_;
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
  std::vector<PredictedPlan> best_pipelines_, best_replicas_;
  int64_t arrangement_limit_ = 0;  // simulated_plans at which the present arrangement is left
  // Likewise of SpentInstructions; 0: none.
  int64_t arrangement_instructions_ = 0;
  Taken taken_;
  std::vector<bool> holds_a_block_;                   // HoldsABlock of each class
  std::vector<Arrangement> of_unlike_sizes_;          // that may be better, without their sizes
  std::map<std::array<int, 5>, int> most_sequences_;  // by list, schedule, how memory is saved, and level
  std::map<std::array<int, 6>, int> parts_;  // PartsFor by device, sequences, blocks, and what is recomputed
  double most_sequences_below_ = 0;          // a best plan's time
  int64_t device_lists_ = 0;                 // looked at
  int64_t evaluated_ = 0;                    // cheap evaluations, in simulated instructions' worth
  bool passed_over_ = false;                 // ways to save memory where that is no matter of each unit alone
  bool is_kept_best_ = false;                // RunFrom: plans that fit with nothing saved have been searched
};

// Whether a plan of such units, all shared alike, fits the memory of their devices (Search::Fits).
bool FitInUnits(const PlanningProblem& problem, const std::vector<SharedUnit>& units, MemorySaving saving,
                const SearchLimits& limits);

}  // namespace medley
