#include "coordinator/planner/classes/judge_plans.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/planner/classes/host_layers.h"
#include "coordinator/planner/classes/place_routes.h"
#include "coordinator/planner/techniques/orders.h"
#include "coordinator/predictor/predict.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/model/parameters.h"
#include "runtime/ir/plan/part_of_plan.h"
#include "runtime/ir/program/memory.h"

namespace medley {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kMostPlacings = 3;
// What takes so much longer than the fastest is not looked at with the optimizer's state shared.
constexpr double kWorthSharing = 1.03;
constexpr char kBlocksSideBySide[] = ", the same blocks side by side";
// What passes may be in beside 1F1B's order.
constexpr Schedule kOrders[] = {Schedule::kListed, Schedule::kZeroBubbleH1, Schedule::kGPipe};

std::string DescribeSaving(const UnitSaving& saving) {
  return absl::StrCat(
      saving.recompute == Recompute::kNone ? "" : " again",
      saving.recomputed_layers > 0 ? absl::StrCat(" of ", saving.recomputed_layers) : "",
      saving.window_layers > 0 ? absl::StrCat(" on the host, ", saving.window_layers, " at a time") : "",
      saving.activations_home == ActivationsHome::kHost ? " keeping on the host" : "",
      saving.sequence_parallel ? " by rows" : "");
}

// "12 x [A100 x2: 10 layers | V100: 6 layers] x 30 of 2"
std::string DescribeShapes(const StageTable& table, const ClassedPlan& plan) {
  std::string text;
  for (const ShapedRoutes& shaped : plan.routes) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", shaped.routes, " x [");
    for (const StageForm& stage : shaped.shape.stages) {
      const StageKind& kind = table.kinds()[stage.kind];
      absl::StrAppend(&text, stage.first ? "" : " | ", table.problem().devices[kind.devices[0]].kind,
                      kind.degree > 1 ? absl::StrCat(" x", kind.degree) : "", ": ",
                      stage.layers > 0 ? absl::StrCat(stage.layers)
                      : stage.first    ? "embedding"
                                       : "head",
                      DescribeSaving(stage.saving),
                      stage.units > 1 ? absl::StrCat(" on ", stage.units, " in turn") : "");
    }
    absl::StrAppend(&text, "] x ", shaped.micro_batches, " of ",
                    table.problem().micro_batch_sizes[shaped.shape.size]);
  }
  return text;
}

}  // namespace

// Whether the first rank of each stage of such routes fits its device, with `optimizer_share` of the state.
bool PlanJudge::Fits(const Plan& plan, double optimizer_share) const {
  const PlanningProblem& problem = predictor_.problem();
  const bool layers_alone = LayersAreSummedAlone(problem.shape.model);
  std::set<std::string> seen;
  for (size_t r = 0; r < plan.routes.size(); ++r) {
    const Route& route = plan.routes[r];
    // Under 1F1B more keep no more.
    const int micro_batches =
        plan.schedule == Schedule::kGPipe
            ? route.micro_batches
            : std::min(route.micro_batches, 2 * static_cast<int>(route.units.size()) + 2);
    std::string key = absl::StrCat(route.micro_batch_sequences, "x", micro_batches);
    for (const UnitId u : route.units) {
      const Unit& unit = plan.units[u];
      absl::StrAppend(&key, "|", predictor_.ClassOf(predictor_.DeviceNamed(unit.devices.front())), ",",
                      unit.devices.size(), ",", unit.chunks[0].end.value(), ",",
                      static_cast<int>(unit.recompute), ",", unit.recomputed_layers, ",", unit.window_layers,
                      ",", static_cast<int>(unit.activations_home), ",", unit.homed_layers, ",",
                      unit.sequence_parallel ? 1 : 0);
    }
    if (!seen.insert(key).second) continue;
    Plan alone = PartOfPlan(plan, {static_cast<int>(r)});
    alone.routes[0].micro_batches = micro_batches;
    for (size_t s = 0; s < alone.units.size(); ++s) {
      const Rank rank = FirstRankOf(alone, static_cast<int>(s));
      RankMemory memory = MemoryOfRank(alone, rank, problem.shape);
      const ModelConfig& model = problem.shape.model;
      const Bytes layer =
          SizeOf(Dtype::kF32) *
          SegmentElements(LocalModel(model, ShareOf(alone, rank, model)), SegmentOfBlock(BlockOfLayer(0)));
      memory.optimizer = OptimizerBytes(memory.optimizer, alone.units[s].window_layers, layer, layers_alone,
                                        optimizer_share);
      if (!medley::Fits(memory, RoomOf(problem, alone, rank))) return false;
      if (memory.host == Bytes{0}) continue;
      // Of layers half of it are moments. Each device has an equal part of its host.
      const DeviceCost& device = problem.devices[predictor_.DeviceNamed(DeviceOf(alone, rank))];
      const double part = alone.units[s].lives_on_host() ? (1 + optimizer_share) / 2 : 1,
                   needed = part * static_cast<double>(memory.host.value);
      if (needed > HostBytesFor(problem, device)) return false;
    }
  }
  return true;
}

// Shares are scattered and gathered by other ways than whole sums, which are often faster. False: it does not fit.
bool PlanJudge::ShareOptimizer(Plan& plan) const {
  plan.shards_optimizer = !Fits(plan, 1);
  const bool may_share = predictor_.problem().constraints.saves_memory;
  return !plan.shards_optimizer || (may_share && Fits(plan, OwnShare(static_cast<int>(plan.routes.size()))));
}

double PlanJudge::StepSeconds(const StageTable& table, ClassedPlan& found, const Deal& deal) {
  if (HasBundles(found)) return kNever;
  Plan plan;
  for (int placings = 0; plan.units.empty(); ++placings) {
    if (placings == kMostPlacings || found.empty()) return kNever;
    plan = PlaceRoutes(table, found.routes);
    if (!plan.units.empty()) break;
    if (deal == nullptr) return kNever;
    found = deal(found.routes);
  }
  if (!ShareOptimizer(plan)) return kNever;
  const std::string summary = DescribeShapes(table, found);
  if (!judged_.insert(summary).second) return kNever;
  // What keeps messages within hosts may take sums out of them, and the other way round.
  Plan by_blocks = PlaceByBlocks(table, found.routes);
  by_blocks.shards_optimizer = plan.shards_optimizer;
  const double seconds = Keep(std::move(plan), summary);
  if (by_blocks.units.empty()) return seconds;
  return std::min(seconds, Keep(std::move(by_blocks), absl::StrCat(summary, kBlocksSideBySide)));
}

double PlanJudge::OrderedStepSeconds(const StageTable& table, const ClassedPlan& found) {
  std::vector<ShapedRoutes> routes = found.routes;
  const auto has_idle_routes = [](const ShapedRoutes& of) { return of.micro_batches < of.shape.routes(); };
  if (std::any_of(routes.begin(), routes.end(), has_idle_routes)) return kNever;
  Plan plan = PlaceRoutes(table, routes);
  if (plan.units.empty()) return kNever;
  const std::string summary = DescribeShapes(table, found);
  Plan by_blocks = PlaceByBlocks(table, found.routes);
  // What units of bundles keep their order alone tells.
  if (HasBundles(found)) {
    const bool may_share = predictor_.problem().constraints.saves_memory;
    plan.shards_optimizer = may_share;
    while (!route_orders_.Order(plan, Schedule::kListed)) {
      if (!plan.shards_optimizer) return kNever;
      plan.shards_optimizer = false;
    }
  } else if (!ShareOptimizer(plan)) {
    return kNever;
  }
  by_blocks.shards_optimizer = plan.shards_optimizer;
  double least_seconds = kNever;
  for (const Schedule schedule : kOrders) {
    for (const Plan* placed : {&plan, &by_blocks}) {
      if (placed->units.empty()) continue;
      std::optional<OrderedPlan> ordered = route_orders_.Order(*placed, schedule);
      if (!ordered) break;  // nor elsewhere
      const double before = best_.step_seconds;
      least_seconds =
          std::min(least_seconds, Keep(std::move(ordered->plan),
                                       placed == &plan ? summary : absl::StrCat(summary, kBlocksSideBySide)));
      if (best_.step_seconds == before) continue;
      orders_ = absl::StrCat(schedule == Schedule::kListed ? "synthesised" : NameOf(schedule), " for ",
                             ordered->faster_kinds, " of ", ordered->kinds, " kinds of routes");
    }
  }
  return least_seconds;
}

void PlanJudge::CutIntoRanges() {
  const PlanConstraints& constraints = predictor_.problem().constraints;
  if (!found_any() || !PassesEachUnitOnce(best_.plan) || constraints.max_stages > 0) return;
  const std::optional<OrderedPlan> ordered = route_orders_.OrderInRanges(WithoutOrders(best_.plan));
  if (!ordered) return;
  const double seconds = PredictedSeconds(ordered->plan);
  if (seconds > (1 - kLeastGain) * best_.step_seconds || !FitsMemory(predictor_.problem(), ordered->plan))
    return;
  best_.plan = ordered->plan;
  best_.step_seconds = seconds;
  orders_ =
      absl::StrCat("synthesised for ", ordered->faster_kinds, " of ", ordered->kinds,
                   " kinds of routes, with up to ", MostRanges(ordered->plan), " ranges of blocks a unit");
}

// If it is predicted to be faster than the fastest. Replicas that share the optimizer's state gather behind
// first forwards, so what fits without may be faster with it, too.
double PlanJudge::Keep(Plan plan, std::string summary) {
  double seconds = PredictedSeconds(plan);
  if (!plan.shards_optimizer && predictor_.problem().constraints.saves_memory && plan.routes.size() > 1 &&
      (!found_any() || seconds < kWorthSharing * best_.step_seconds)) {
    plan.shards_optimizer = true;
    const double shared_seconds = PredictedSeconds(plan);
    plan.shards_optimizer = shared_seconds < (1 - kLeastGain) * seconds;
    if (plan.shards_optimizer) {
      seconds = shared_seconds;
      absl::StrAppend(&summary, ", optimizer's state shared");
    }
  }
  if (seconds == kNever || (found_any() && seconds >= best_.step_seconds)) return seconds;
  best_.plan = std::move(plan);
  best_.step_seconds = seconds;
  best_.summary = std::move(summary);
  return seconds;
}

double PlanJudge::PredictedSeconds(const Plan& plan) {
  ++best_.predicted_plans;
  const absl::StatusOr<double> predicted = predictor_.Predict(plan);
  return predicted.ok() ? *predicted : kNever;
}

}  // namespace medley
