#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "coordinator/planner/classes/deal_micro_batches.h"
#include "coordinator/planner/classes/resources.h"
#include "coordinator/planner/classes/sum_model.h"
#include "runtime/base/stop_flag.h"

namespace medley {

// What moves between plans need, all of which must outlive the search.
struct MovesBetween {
  // The table by which plans of so many routes are estimated. Kinds are the same in all of them.
  std::function<StageTable&(int routes)> table_of;
  std::function<const SumModel&(int routes, int least_degree)> sums_of;
  // The step; infinite: the plan has no place or does not fit.
  std::function<double(const StageTable&, const ClassedPlan&)> predict;
  // By which plans are predicted first, of passes in any order; none: by what they take under 1F1B.
  std::function<double(StageTable&, const ClassedPlan&)> estimate;
  const Resources* resources = nullptr;
  int most_routes = 0, most_stages = 0;
};

// Local search over predicted plans. Shapes are priced one by one, by what sums take on average; what a plan's own routes sum
// with whom only its prediction knows. So plans near the best ones are predicted, too:
// - layers go from a stage to its neighbour, of few stages one to any other;
// - a stage changes places with one of its own or of another shape that is of another kind, or is of another kind that has devices left;
// - routes are folded, each two stages of a kind to one of twice as many routes, and unfolded;
// - two stages of a class that follow each other become one of twice as many devices, and the other way round;
// - all stages get twice or half the devices, for half or twice as many routes;
// - micro-batches have another size, or go from some routes to others;
// - some routes of a shape become what another shape is, or are left out.
// Where stages change, layers are dealt anew, so that the slowest one takes as little as can be. Of the plans that a move leads to
// those with the best estimates are predicted, and the first that is faster is taken. Ends where none is, or once so many
// were predicted: deterministic.
class LocalSearch {
 public:
  LocalSearch(MovesBetween moves, const std::atomic<bool>* stop) : moves_(std::move(moves)), stop_(stop) {}

  // From that plan, which is predicted to take so long, with at most so many predictions; how many there were.
  int ImproveFrom(ClassedPlan plan, double step_seconds, int most_predictions);

 private:
  using Routes = std::vector<ShapedRoutes>;  // of unlike shapes; micro-batches do not count
  struct Candidate {
    ClassedPlan plan;
    StageTable* table = nullptr;
  };

  bool stopped() const { return IsStopped(stop_); }
  // With micro-batches; empty: there are not as many devices, something does not fit, or it is no plan.
  Candidate Dealt(Routes routes);
  std::vector<Candidate> Neighbours(StageTable& table, const ClassedPlan& plan);
  static void AddShifts(const Routes& routes, std::vector<Routes>& all);
  static void AddExchanges(StageTable& table, const Routes& routes, std::vector<Routes>& all);
  static void AddOtherKinds(StageTable& table, const Routes& routes, std::vector<Routes>& all);
  static void AddJoins(StageTable& table, const Routes& routes, std::vector<Routes>& all);
  static void AddFolds(StageTable& table, const Routes& routes, std::vector<Routes>& all);
  void AddOtherCounts(StageTable& table, const Routes& routes, std::vector<Routes>& all) const;
  static std::vector<Candidate> PassedOn(StageTable& table, const ClassedPlan& plan);

  const MovesBetween moves_;
  const std::atomic<bool>* const stop_;
  std::map<std::string, RouteClock> clocks_;
  std::set<std::string> predicted_;
};

}  // namespace medley
