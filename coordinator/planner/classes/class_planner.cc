#include "coordinator/planner/classes/class_planner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/planner/classes/class_search.h"
#include "coordinator/planner/classes/lower_bound.h"
#include "coordinator/planner/classes/place_routes.h"
#include "coordinator/predictor/alike_routes.h"
#include "coordinator/predictor/predict.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/program/memory.h"

namespace medley {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kMostStages = 48;
constexpr double kAlike = 1e-3;
// By how much more twice as many replicas are taken to be slower than they are estimated.
constexpr double kMoreReplicas = 0.05;
// After so many looks that find nothing faster no others are taken.
constexpr int kMostInVain = 6;
// Classes are left out if sums of so many elements then take no more than that part of the time.
constexpr double kMuchFaster = 0.8;
constexpr int64_t kSampleElements = int64_t{4} << 20;
// What is estimated to be so much slower than the fastest plan is not predicted.
constexpr double kHopeless = 1.01;
// Shares of slices are whole elements, and holders of parts of them not equally many.
constexpr double kOwnPart = 1.1;

// Whether the first rank of each stage of such routes fits its device, with `optimizer_share` of the state.
bool Fits(const AlikeRoutePredictor& predictor, const Plan& plan, double optimizer_share) {
  const PlanningProblem& problem = predictor.problem();
  std::set<std::string> seen;
  for (const Route& route : plan.routes) {
    Plan alone{.schedule = plan.schedule};
    Route& own = alone.routes.emplace_back(Route{{}, route.micro_batches, route.micro_batch_sequences});
    std::string key = absl::StrCat(route.micro_batch_sequences);
    for (const UnitId u : route.units) {
      const Unit& unit = plan.units[u];
      own.units.push_back(static_cast<int>(alone.units.size()));
      alone.units.push_back(unit);
      absl::StrAppend(&key, "|", predictor.ClassOf(predictor.DeviceNamed(unit.devices.front())), ",",
                      unit.devices.size(), ",", unit.chunks[0].end.value(), ",",
                      static_cast<int>(unit.recompute));
    }
    if (!seen.insert(key).second) continue;
    // More keep no more.
    own.micro_batches = std::min(own.micro_batches, 2 * static_cast<int>(own.units.size()) + 2);
    for (size_t s = 0; s < alone.units.size(); ++s) {
      const Rank rank = FirstRankOf(alone, static_cast<int>(s));
      RankMemory memory = MemoryOfRank(alone, rank, problem.shape);
      memory.optimizer = {
          static_cast<int64_t>(optimizer_share * static_cast<double>(memory.optimizer.value))};
      if (!medley::Fits(memory, RoomOf(problem, alone, rank))) return false;
    }
  }
  return true;
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
                      stage.recompute == Recompute::kNone ? "" : " again");
    }
    absl::StrAppend(&text, "] x ", shaped.micro_batches, " of ",
                    table.problem().micro_batch_sizes[shaped.shape.size]);
  }
  return text;
}

int Replicas(const ClassedPlan& plan) {
  int routes = 0;
  for (const ShapedRoutes& shaped : plan.routes) routes += shaped.routes;
  return routes;
}

class Planning {
 public:
  Planning(const PlanningProblem& problem, const std::atomic<bool>* stop)
      : problem_(problem), stop_(stop), predictor_(problem), classes_(predictor_.classes()) {}

  absl::StatusOr<PlanByClass> Run() {
    TryAll(classes_);
    // Sums were taken for those over all classes; over fewer, and not across slow links, they may be faster.
    std::vector<DeviceClass> left = classes_;
    while (!stopped() && LeaveOutSlowest(left)) TryAll(left);
    const std::vector<DeviceClass> used = ClassesUsed();
    if (!used.empty() && used.size() < left.size()) TryAll(used);
    if (!found_any() && stopped())
      return absl::CancelledError("planning was stopped before it had found a plan");
    if (!found_any()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no plan of ", problem_.devices.size(), " devices in ", classes_.size(),
                       " classes fits their memory",
                       problem_.constraints.limit_devices() ? " and the limits to devices" : "",
                       ", whichever of the measured degrees of tensor parallelism stages have and whatever "
                       "they recompute"));
    }
    return std::move(best_);
  }

 private:
  // Plans of at most so many replicas, which are taken to sum gradients as so many do and to have such a share of the
  // optimizer's state.
  struct Replicated {
    Replicated(const PlanningProblem& problem, const std::vector<DeviceClass>& classes, StageBuffers& buffers,
               double optimizer_share, int limit, int most_stages, int degree, const std::atomic<bool>* stop)
        : table(problem, classes, buffers, optimizer_share, degree),
          sums(problem, classes, limit, std::max(1, degree)),
          search(table, sums, most_stages, limit, stop),
          degree(degree),
          limit(limit) {}
    StageTable table;
    const SumModel sums;
    ClassSearch search;
    const int degree, limit;
  };

  bool stopped() const { return stop_ != nullptr && stop_->load(std::memory_order_relaxed); }
  bool found_any() const { return !best_.plan.units.empty(); }

  // How many replicas there are decides what their sums take and how the optimizer's state is shared, so twice as many
  // each time are planned for.
  void TryAll(const std::vector<DeviceClass>& classes) {
    looked_at_.clear();
    const int devices = static_cast<int>(problem_.devices.size()), layers = problem_.shape.model.layers;
    const PlanConstraints& allowed = problem_.constraints;
    const int most_stages =
        std::min({layers, kMostStages, allowed.max_stages > 0 ? allowed.max_stages : layers});
    const int most_routes = allowed.max_routes > 0 ? std::min(allowed.max_routes, devices) : devices;
    std::vector<std::unique_ptr<Replicated>> all;
    // Units of one degree sum slices as large as their shares; where degrees are mixed, the least of them counts.
    std::set<int> degrees = {0};
    const StageTable all_kinds(problem_, classes, buffers_, 1);
    for (const StageKind& kind : all_kinds.kinds()) degrees.insert(kind.degree);
    if (degrees.size() == 2) degrees.erase(0);
    for (const int degree : degrees) {
      std::vector<RouteShape> shapes;  // that were worth something so far
      for (int replicas = std::max(2, devices / kMostStages); !stopped(); replicas *= degree == 0 ? 2 : 4) {
        const int limit = std::min(replicas, most_routes);
        all.push_back(std::make_unique<Replicated>(problem_, classes, buffers_, ShareOf(limit), limit,
                                                   most_stages, degree, stop_));
        ClassSearch& search = all.back()->search;
        // Not if they computed all the time.
        if (found_any() && search.LowerBoundSeconds() > best_.step_seconds) break;
        for (const RouteShape& shape : shapes) search.Suggest(shape);
        search.Relax();
        best_.priced_shapes += search.priced();
        if (search.relaxed_seconds() < kNever) shapes = search.Shapes();
        // Some plan soon, however early planning is stopped.
        if (!found_any()) LookAt(*all.back());
        if (limit < replicas) break;
      }
    }
    // The best ones first: the others are then seldom worth a look. The more replicas there are, the more are their sums
    // underestimated.
    const auto hope = [](const std::unique_ptr<Replicated>& of) {
      return of->search.relaxed_seconds() * (1 + kMoreReplicas * std::log2(of->limit));
    };
    std::stable_sort(all.begin(), all.end(), [&](const auto& a, const auto& b) { return hope(a) < hope(b); });
    int in_vain = 0;
    for (const std::unique_ptr<Replicated>& of : all) {
      const double before = best_.step_seconds;
      if (!LookAt(*of)) continue;
      in_vain = best_.step_seconds < before ? 0 : in_vain + 1;
      if (in_vain == kMostInVain) break;
    }
    // With fewer classes the bound would not be one of all plans.
    if (!found_any() || stopped() || classes.size() < classes_.size()) return;
    std::vector<RouteShape> shapes;
    double busy_seconds = kNever;  // of all degrees
    for (const std::unique_ptr<Replicated>& of : all) {
      const std::vector<RouteShape> good = of->search.Shapes();
      shapes.insert(shapes.end(), good.begin(), good.end());
      busy_seconds = std::min(busy_seconds, of->search.LowerBoundSeconds());
    }
    best_.lower_bound_seconds =
        std::max(busy_seconds, LowerBoundSeconds(problem_, classes_, buffers_, shapes, best_.step_seconds,
                                                 most_stages, most_routes));
  }

  // Places and predicts what may be the fastest of them; false: there is nothing to be expected of it.
  bool LookAt(Replicated& of) {
    const double relaxed = of.search.relaxed_seconds();
    if (relaxed == kNever || stopped()) return false;
    if (found_any() && relaxed > kHopeless * best_.step_seconds) return false;
    // More replicas that do no more are the same ones.
    const auto alike = [&](const std::pair<int, double>& looked) {
      return looked.first == of.degree && std::abs(looked.second - relaxed) < kAlike * relaxed;
    };
    if (std::any_of(looked_at_.begin(), looked_at_.end(), alike)) return false;
    looked_at_.push_back({of.degree, relaxed});
    for (const ClassedPlan& plan : of.search.Run()) Place(of.table, of.search, plan);
    return true;
  }

  // Of plans of at most so many replicas, and more than half of that.
  double ShareOf(int replicas) const {
    if (!problem_.constraints.saves_memory) return 1;
    return std::min(1.0, kOwnPart / (replicas / 2 + 1));
  }

  // Leaves out the class that does least among those without which sums take much less, if there is one.
  bool LeaveOutSlowest(std::vector<DeviceClass>& classes) const {
    const auto sum_seconds = [&](const std::vector<DeviceClass>& of) {
      int devices = 0;
      for (const DeviceClass& one : of) devices += one.devices;
      return SumModel(problem_, of, std::min(devices, kMostSummed), 1).Seconds(kSampleElements);
    };
    if (classes.size() < 2) return false;
    const double all = sum_seconds(classes);
    std::vector<DeviceClass> best;
    double least_rate = kNever;
    for (size_t c = 0; c < classes.size(); ++c) {
      std::vector<DeviceClass> rest = classes;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(c));
      const double rate = LayersASecond(classes[c]);
      if (rate >= least_rate || sum_seconds(rest) > kMuchFaster * all) continue;
      least_rate = rate;
      best = std::move(rest);
    }
    if (best.empty()) return false;
    classes = std::move(best);
    return true;
  }

  // Of one sequence each, on all its devices.
  double LayersASecond(const DeviceClass& of) const {
    const DeviceCost& device = problem_.devices[of.first()];
    double rate = 0;
    for (size_t size = 0; size < device.times.size(); ++size)
      rate = std::max(rate, problem_.micro_batch_sizes[size] / device.times[size].layer.Seconds());
    return of.devices * rate;
  }

  std::vector<DeviceClass> ClassesUsed() const {
    std::set<int> numbers;
    for (const Unit& unit : best_.plan.units) {
      for (const std::string& name : unit.devices)
        numbers.insert(predictor_.ClassOf(predictor_.DeviceNamed(name)));
    }
    std::vector<DeviceClass> used;
    for (const int number : numbers) used.push_back(classes_[number]);
    return used;
  }

  void Place(const StageTable& table, ClassSearch& search, ClassedPlan found) {
    if (found_any() && found.estimated_seconds > kHopeless * best_.step_seconds) return;
    // Routes that have no place leave their work to the others.
    Plan plan;
    for (int tries = 0; plan.units.empty(); ++tries) {
      if (tries == 3 || found.empty()) return;
      plan = PlaceRoutes(table, found.routes);
      if (plan.units.empty()) found = search.Distribute(found.routes);
    }
    // Shares are scattered and gathered by other ways than whole sums, which are often faster.
    plan.shards_optimizer = !Fits(predictor_, plan, 1);
    if (plan.shards_optimizer &&
        !(problem_.constraints.saves_memory && Fits(predictor_, plan, kOwnPart / Replicas(found))))
      return;
    Keep(std::move(plan), DescribeShapes(table, found));
  }

  // If it is predicted to be faster than the fastest.
  bool Keep(Plan plan, std::string summary) {
    ++best_.predicted_plans;
    const absl::StatusOr<AlikePrediction> predicted = predictor_.Predict(plan);
    if (!predicted.ok() || (found_any() && predicted->step_seconds >= best_.step_seconds)) return false;
    best_.plan = std::move(plan);
    best_.step_seconds = predicted->step_seconds;
    best_.summary = std::move(summary);
    return true;
  }

  const PlanningProblem& problem_;
  const std::atomic<bool>* const stop_;
  AlikeRoutePredictor predictor_;
  const std::vector<DeviceClass>& classes_;
  StageBuffers buffers_;
  std::vector<std::pair<int, double>> looked_at_;  // degrees and relaxed seconds
  PlanByClass best_;
};

}  // namespace

absl::StatusOr<PlanByClass> PlanByClasses(const PlanningProblem& problem, const std::atomic<bool>* stop) {
  return Planning(problem, stop).Run();
}

bool CanPlanByClasses(const PlanningProblem& problem) {
  std::set<int> processors;
  for (const DeviceCost& device : problem.devices) processors.insert(device.processor);
  const std::vector<Schedule>& schedules = problem.constraints.schedules;
  return processors.size() == problem.devices.size() &&
         std::count(schedules.begin(), schedules.end(), Schedule::kOneForwardOneBackward) > 0;
}

}  // namespace medley
