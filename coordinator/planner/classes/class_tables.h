#pragma once
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "coordinator/planner/classes/improve.h"
#include "coordinator/planner/classes/master.h"
#include "coordinator/planner/classes/resources.h"
#include "coordinator/planner/classes/stage_table.h"
#include "coordinator/planner/classes/sum_model.h"
#include "coordinator/predictor/alike_routes.h"
#include "coordinator/predictor/cost_model.h"
#include "coordinator/predictor/device_classes.h"

namespace medley {

// Stages of any route at most; each has a block at least, the embedding and the head too.
int MostStagesOf(const PlanningProblem& problem);

// By what plans of a problem are estimated. How many replicas there are decides what share of the optimizer's state each has, what sums
// take and how many messages share cards, so there is a table for each power of two of them, made as it is asked for. The kinds of
// those over all classes and degrees are the same, so that plans go from one to another.
class ClassTables {
 public:
  // Both must outlive it.
  ClassTables(const PlanningProblem& problem, AlikeRoutePredictor& predictor);

  const PlanningProblem& problem() const { return problem_; }
  AlikeRoutePredictor& predictor() { return predictor_; }
  const std::vector<DeviceClass>& classes() const { return predictor_.classes(); }
  const Resources& resources() const { return resources_; }
  StageMemories& memories() { return memories_; }
  SumsOfClasses& sums_of_classes() { return sums_of_classes_; }
  int most_stages() const { return most_stages_; }
  int most_routes() const { return most_routes_; }

  bool layers_on_hosts() const { return layers_on_hosts_; }
  // From now on; tables that were given are no more.
  void LetLayersOnHosts();

  // Of plans of so many replicas, which are taken to have such a share of the optimizer's state as the least of them do. `only_degree`:
  // of all stages; 0: any.
  std::unique_ptr<StageTable> TableOver(const std::vector<DeviceClass>& classes, RouteCount replicas,
                                        int only_degree);
  // Of all classes and degrees.
  StageTable& TableOf(int replicas);
  // Of stages of a table of some degree or classes alone.
  RouteShape InAllKinds(const StageTable& from, RouteShape shape);

  // `predict`: the step of a plan, infinite where it has no place or does not fit.
  MovesBetween Moves(std::function<double(const StageTable&, const ClassedPlan&)> predict);

 private:
  const PlanningProblem& problem_;
  AlikeRoutePredictor& predictor_;
  const Resources resources_;
  const int most_stages_, most_routes_;
  StageMemories memories_;
  bool layers_on_hosts_ = false;
  std::map<int, std::unique_ptr<StageTable>> tables_;  // by replicas
  SumModels sums_;
  SumsOfClasses sums_of_classes_;
};

}  // namespace medley
