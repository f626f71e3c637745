#include "coordinator/planner/classes/class_tables.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "coordinator/planner/classes/host_layers.h"
#include "coordinator/planner/classes/plan_by_class.h"

namespace medley {
namespace {

// Each has a device and a micro-batch at least.
int MostRoutesOf(const PlanningProblem& problem) {
  const PlanConstraints& allowed = problem.constraints;
  int most = std::min(static_cast<int>(problem.devices.size()),
                      std::max(1, problem.shape.global_batch_sequences / problem.micro_batch_sizes.front()));
  for (const int limit : {allowed.max_routes, allowed.most_devices})
    if (limit > 0) most = std::min(most, limit);
  return most;
}

}  // namespace

int MostStagesOf(const PlanningProblem& problem) {
  const int blocks = problem.shape.model.blocks(), allowed = problem.constraints.max_stages;
  return std::min({blocks, static_cast<int>(problem.devices.size()), allowed > 0 ? allowed : blocks});
}

ClassTables::ClassTables(const PlanningProblem& problem, AlikeRoutePredictor& predictor)
    : problem_(problem),
      predictor_(predictor),
      resources_(problem, predictor.classes()),
      most_stages_(std::min(MostStagesOf(problem), kMostStagesByClasses)),
      most_routes_(MostRoutesOf(problem)),
      memories_(problem),
      sums_(predictor, predictor.classes()),
      sums_of_classes_(predictor, predictor.classes()) {}

void ClassTables::LetLayersOnHosts() {
  layers_on_hosts_ = true;
  tables_.clear();
}

std::unique_ptr<StageTable> ClassTables::TableOver(const std::vector<DeviceClass>& classes,
                                                   RouteCount replicas, int only_degree) {
  const double share = problem_.constraints.saves_memory ? OwnShare(replicas.least) : 1;
  return std::make_unique<StageTable>(problem_, classes, memories_, share,
                                      TableScope{.layers_on_hosts = layers_on_hosts_,
                                                 .most_routes = replicas.most,
                                                 .least_routes = replicas.least,
                                                 .only_degree = only_degree});
}

StageTable& ClassTables::TableOf(int replicas) {
  const auto least = static_cast<int>(std::bit_floor(static_cast<unsigned>(replicas)));
  std::unique_ptr<StageTable>& table = tables_[least];
  if (table == nullptr) table = TableOver(classes(), {.least = least, .most = 2 * least}, /*only_degree=*/0);
  return *table;
}

RouteShape ClassTables::InAllKinds(const StageTable& from, RouteShape shape) {
  const std::vector<StageKind>& all = TableOf(1).kinds();
  for (StageForm& stage : shape.stages) {
    const StageKind& own = from.kinds()[stage.kind];
    const auto same = std::find_if(all.begin(), all.end(), [&](const StageKind& kind) {
      return kind.degree == own.degree &&
             predictor_.ClassOf(kind.devices[0]) == predictor_.ClassOf(own.devices[0]);
    });
    stage.kind = static_cast<int>(same - all.begin());
  }
  return shape;
}

MovesBetween ClassTables::Moves(std::function<double(const StageTable&, const ClassedPlan&)> predict) {
  return {.table_of = [this](int replicas) -> StageTable& { return TableOf(replicas); },
          .sums_of = [this](int replicas, int least_degree) -> const SumModel& {
            return sums_.Of(static_cast<int>(std::bit_ceil(static_cast<unsigned>(replicas))), least_degree);
          },
          .predict = std::move(predict),
          .resources = &resources_,
          .most_routes = most_routes_,
          .most_stages = most_stages_};
}

}  // namespace medley
