#include "coordinator/planner/classes/class_planner.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/planner/classes/class_search.h"
#include "coordinator/planner/classes/class_zones.h"
#include "coordinator/planner/classes/host_layers.h"
#include "coordinator/planner/classes/improve.h"
#include "coordinator/planner/classes/judge_plans.h"
#include "coordinator/planner/classes/lower_bound.h"
#include "coordinator/planner/classes/order_plans.h"
#include "coordinator/planner/classes/ordered_seconds.h"
#include "coordinator/planner/classes/parts_alone.h"
#include "coordinator/planner/classes/place_bound.h"
#include "coordinator/predictor/alike_routes.h"
#include "coordinator/predictor/work_bound.h"
#include "runtime/base/counted.h"
#include "runtime/base/stop_flag.h"

namespace medley {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Of routes that are bounded: where more stages exist no more is known than that devices compute.
constexpr int kMostBoundedStages = 128;
constexpr double kAlike = 1e-3;
// By how much more twice as many replicas are taken to be slower than they are estimated.
constexpr double kMoreReplicas = 0.01;
// After so many looks that find nothing faster no others are taken.
constexpr int kMostInVain = 6;
// Classes are left out if sums of so many elements then take no more than that part of the time.
constexpr double kMuchFaster = 0.8;
constexpr int64_t kSampleElements = int64_t{4} << 20;
// Of a replica, whose stages may then begin with any layer.
constexpr int kManyDevices = 16;
// What is estimated to be so much faster is predicted at once.
constexpr double kPromising = 0.9;
// What is estimated to be so much slower than the fastest plan is not predicted.
constexpr double kHopeless = 1.01;
// Shapes of searches that end no later than that tell what devices are worth.
constexpr double kOfUse = 1.03;
// So many plans whose classes have zones are predicted.
constexpr size_t kMostZoned = 8;
// So many zones and bundles of each number are looked at for passes in any order.
constexpr size_t kMostInOrder = 4;
// With a class that holds later layers alone so many are planned for, and cut into so many parts.
constexpr size_t kMostLater = 1;
constexpr int kLaterParts = 12;
// Such a class takes so much longer for sums over some hosts.
constexpr double kMuchSlower = 2;
constexpr size_t kSampleHosts = 4;
// Plans near the best are predicted from so many starts at most, which are no further from the best one; and so many in all, by
// devices, so that large problems take as long as others.
constexpr size_t kMostStarts = 3;
constexpr double kNearBest = 1.06;
constexpr int kImprovingWork = 150'000, kFewestPredictions = 60, kMostPredictions = 120;

// Of any route; each has a block at least, the embedding and the head too.
int MostStagesOf(const PlanningProblem& problem) {
  const int blocks = problem.shape.model.blocks(), allowed = problem.constraints.max_stages;
  return std::min({blocks, static_cast<int>(problem.devices.size()), allowed > 0 ? allowed : blocks});
}

// Each has a device and a micro-batch at least.
int MostRoutesOf(const PlanningProblem& problem) {
  const PlanConstraints& allowed = problem.constraints;
  int most = std::min(static_cast<int>(problem.devices.size()),
                      std::max(1, problem.shape.global_batch_sequences / problem.micro_batch_sizes.front()));
  for (const int limit : {allowed.max_routes, allowed.most_devices})
    if (limit > 0) most = std::min(most, limit);
  return most;
}

class Planning {
 public:
  Planning(const PlanningProblem& problem, const std::atomic<bool>* stop)
      : problem_(problem),
        stop_(stop),
        predictor_(problem),
        classes_(predictor_.classes()),
        memories_(problem) {}

  absl::StatusOr<PlanByClass> Run() {
    Search();
    // Under 1F1B each micro-batch copies a layer's parameters four times, so what fits otherwise is seldom slower.
    const bool may_home = problem_.constraints.saves_memory && !keeps_batches_ &&
                          std::any_of(problem_.devices.begin(), problem_.devices.end(), CopiesAreMeasured);
    if (!found_any() && may_home) {
      layers_on_hosts_ = true;
      Search();
    }
    if (!found_any() && stopped())
      return absl::CancelledError("planning was stopped before it had found a plan");
    if (!found_any()) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "planning by classes found no plan of ", Counted(problem_.devices.size(), "device"), " that fits"));
    }
    best_.named_step_seconds = best_.step_seconds;
    if (problem_.constraints.synthesised_orders) {
      MovesBetween moves = Moves(nullptr);
      moves.estimate = [this, sums_of = moves.sums_of](StageTable& table, const ClassedPlan& plan) {
        return LeastOrderedSeconds(table, sums_of_classes_, sums_of(plan.replicas(), /*least_degree=*/1),
                                   plan);
      };
      OrderPasses(judge_, std::move(moves), std::move(starts_), ZonesInOrder(), stop_, best_);
    }
    TakePartIfFaster();
    return std::move(best_);
  }

 private:
  void Search() {
    tables_.clear();
    most_stages_ = std::min(MostStagesOf(problem_), kMostStagesByClasses);
    most_routes_ = MostRoutesOf(problem_);
    LookAtZones();
    TryAll(classes_);
    // Sums were taken for those over all classes; over fewer, and not across slow links, they may be faster.
    std::vector<DeviceClass> left = classes_;
    while (!stopped() && LeaveOutSlowest(left)) TryAll(left);
    const std::vector<DeviceClass> used = ClassesUsed();
    if (!used.empty() && used.size() < left.size()) TryAll(used);
    Improve();
    if (found_any() && !stopped()) Bound();
  }

  // Over the devices of one site, rack or host alone plans are made for its own classes, sums and counts of replicas, with no way out of it.
  void TakePartIfFaster() {
    for (const PlanningProblem& home : PartsAlone(problem_)) {
      if (stopped() || WorkSeconds(home) >= best_.step_seconds) continue;
      absl::StatusOr<PlanByClass> at_home = PlanByClasses(home, stop_);
      if (!at_home.ok()) continue;
      best_.priced_shapes += at_home->priced_shapes;
      best_.predicted_plans += at_home->predicted_plans;
      const absl::StatusOr<double> predicted = predictor_.Predict(at_home->plan);
      if (!predicted.ok() || *predicted >= best_.step_seconds) continue;
      best_.plan = std::move(at_home->plan);
      best_.step_seconds = *predicted;
      best_.named_step_seconds = std::min(best_.named_step_seconds, at_home->named_step_seconds);
      best_.lower_bound_seconds = std::min(best_.lower_bound_seconds, best_.named_step_seconds);
      best_.summary = std::move(at_home->summary);
      best_.orders = std::move(at_home->orders);
    }
  }

  // Plans of so many replicas, which are taken to sum gradients as the most of them do and to have such a share of the
  // optimizer's state as the least.
  struct Replicated {
    Replicated(const PlanningProblem& problem, const std::vector<DeviceClass>& classes,
               StageMemories& memories, const SumModel& sums, double optimizer_share, bool layers_on_hosts,
               RouteCount routes, int most_stages, int degree)
        : table(problem, classes, memories, optimizer_share,
                {.layers_on_hosts = layers_on_hosts,
                 .most_routes = routes.most,
                 .least_routes = routes.least,
                 .only_degree = degree}),
          sums(sums),
          pricings(PricingsOf(table, most_stages)),
          degree(degree),
          routes(routes) {}
    StageTable table;
    const SumModel& sums;
    std::vector<ShapePricing> pricings;
    const int degree;
    const RouteCount routes;
  };

  // The same, all of whose stages are cut at some of the same places.
  struct Cut {
    Cut(Replicated& of, SumModel sums, std::vector<int> cuts, const std::atomic<bool>* stop)
        : of(of),
          sums(std::move(sums)),
          search(of.table, of.pricings, this->sums, std::move(cuts), of.routes, stop) {}
    Replicated& of;
    const SumModel sums;
    ClassSearch search;
  };

  bool stopped() const { return IsStopped(stop_); }
  bool found_any() const { return judge_.found_any(); }

  using SumModels = std::map<std::pair<int, int>, SumModel>;  // by replicas and the least degree
  const SumModel& SumsOf(SumModels& known, const std::vector<DeviceClass>& classes, int replicas,
                         int least_degree) {
    return known.try_emplace({replicas, least_degree}, predictor_, classes, replicas, least_degree)
        .first->second;
  }

  // What is searched over some classes.
  struct Searches {
    std::vector<std::unique_ptr<Replicated>> replicated;
    std::vector<std::unique_ptr<Cut>> cut;
    SumModels sums;
  };

  void TryAll(const std::vector<DeviceClass>& classes) {
    looked_at_.clear();
    Searches all;
    // Units of one degree sum slices as large as their shares; where degrees are mixed, the least of them counts.
    std::set<int> degrees = {0};
    const StageTable all_kinds(problem_, classes, memories_, 1);
    for (const StageKind& kind : all_kinds.kinds()) degrees.insert(kind.degree);
    if (degrees.size() == 2) degrees.erase(0);
    for (const int degree : degrees) Relax(classes, degree, all);
    LookAtBest(all);
    LookAtLater(classes, all);
    // With fewer classes the bound would not be one of all plans.
    if (classes.size() == classes_.size()) RememberFor(all);
  }

  // Routes that are all alike, with layers of its own for each class.
  void LookAtZones() {
    std::vector<ClassedPlan> plans = Zoned([&](StageTable& table, int routes) {
      return PlansOfZones(table, routes, most_stages_, kMostZoned, stop_);
    });
    for (size_t i = 0; i < std::min(plans.size(), kMostZoned) && !stopped(); ++i) {
      ClassedPlan& plan = plans[i];
      if (found_any() && plan.estimated_seconds > MostHopefulSeconds()) break;
      const double seconds = judge_.StepSeconds(TableOf(plan.replicas()), plan, nullptr);
      if (seconds < kNever) starts_.push_back({std::move(plan), seconds});
    }
  }

  // The same, and bundles, for passes in orders of their own.
  std::vector<ClassedPlan> ZonesInOrder() {
    return Zoned([&](StageTable& table, int bundles) {
      return PlansOfOrderedZones(table, sums_of_classes_, bundles, most_stages_, kMostInOrder, stop_);
    });
  }

  // What `plans_of` finds for numbers of routes that are worth it, the best estimate first.
  template <typename PlansOf>
  std::vector<ClassedPlan> Zoned(const PlansOf& plans_of) {
    std::vector<double> rates;
    for (const DeviceClass& of : classes_) rates.push_back(LayersASecond(of));
    std::vector<ClassedPlan> plans;
    for (const int routes : CountsForZones(classes_, rates, most_routes_)) {
      StageTable& table = TableOf(routes);
      for (ClassedPlan& plan : plans_of(table, routes)) {
        const bool allowed = RoutesOf(plan.routes) <= most_routes_ &&
                             resources_.Has(resources_.Uses(DevicesOf(table, plan.routes)));
        if (allowed) plans.push_back(std::move(plan));
      }
    }
    std::stable_sort(plans.begin(), plans.end(), [](const ClassedPlan& a, const ClassedPlan& b) {
      return a.estimated_seconds < b.estimated_seconds;
    });
    const auto same = [](const ClassedPlan& a, const ClassedPlan& b) {
      return a.replicas() == b.replicas() && SameShape(a.routes[0].shape, b.routes[0].shape);
    };
    plans.erase(std::unique(plans.begin(), plans.end(), same), plans.end());
    return plans;
  }

  // How many replicas there are decides what their sums take and how the optimizer's state is shared, so twice as many
  // each time are planned for.
  void Relax(const std::vector<DeviceClass>& classes, int degree, Searches& all) {
    std::map<int, std::vector<RouteShape>> shapes;  // that were worth something so far, by parts
    const std::vector<RouteCount> ranges = RangesTo(most_routes_);
    // Many replicas of few stages are planned for and predicted in no time, and may be the best.
    for (auto routes = ranges.rbegin(); routes != ranges.rend() && !stopped(); ++routes) {
      const SumModel& sums = SumsOf(all.sums, classes, routes->most, std::max(1, degree));
      all.replicated.push_back(std::make_unique<Replicated>(problem_, classes, memories_, sums,
                                                            ShareOf(routes->least), layers_on_hosts_, *routes,
                                                            most_stages_, degree));
      for (const int parts : PartsFor(static_cast<int>(problem_.devices.size()) / routes->least)) {
        all.cut.push_back(std::make_unique<Cut>(*all.replicated.back(), all.replicated.back()->sums,
                                                EvenCuts(parts), stop_));
        ClassSearch& search = all.cut.back()->search;
        // Not if they computed all the time.
        if (found_any() && search.LowerBoundSeconds() > best_.step_seconds) break;
        for (const RouteShape& shape : shapes[parts]) search.Suggest(shape);
        search.Relax();
        best_.priced_shapes += search.priced();
        const double relaxed = search.relaxed_seconds();
        if (relaxed < kNever) shapes[parts] = search.Shapes();
        // A good plan soon, however early planning is stopped.
        if (!found_any() || relaxed < kPromising * best_.step_seconds) LookAt(*all.cut.back());
        // What is cut into fewer parts is not faster, but for its sums.
        if (found_any() && relaxed > MostHopefulSeconds()) break;
      }
    }
  }

  // The best ones first: the others are then seldom worth a look. The more replicas there are, the more are their sums
  // underestimated.
  void LookAtBest(Searches& all) {
    const auto hope = [](const std::unique_ptr<Cut>& cut) {
      return cut->search.relaxed_seconds() * (1 + kMoreReplicas * std::log2(cut->of.routes.most));
    };
    std::stable_sort(all.cut.begin(), all.cut.end(),
                     [&](const auto& a, const auto& b) { return hope(a) < hope(b); });
    int in_vain = 0;
    for (const std::unique_ptr<Cut>& cut : all.cut) {
      const double before = best_.step_seconds;
      if (!LookAt(*cut)) continue;
      in_vain = best_.step_seconds < before ? 0 : in_vain + 1;
      if (in_vain == kMostInVain) break;
    }
  }

  // Sums of a class whose hosts are slow to sum hide behind backwards and forwards of other layers where it holds the last
  // ones alone: as the best are planned for, with half of the layers, which are its own and others'.
  void LookAtLater(const std::vector<DeviceClass>& classes, const Searches& all) {
    std::vector<double> seconds;
    for (const DeviceClass& of : classes) {
      std::vector<int> devices;
      for (size_t host = 0; host < std::min(of.hosts.size(), kSampleHosts); ++host)
        devices.insert(devices.end(), of.hosts[host].begin(), of.hosts[host].end());
      seconds.push_back(
          GroupSums(predictor_.samples(), std::move(devices), kMostSummed).Seconds(kSampleElements));
    }
    const double least = *std::min_element(seconds.begin(), seconds.end());
    std::vector<int> least_begin;
    for (const double of : seconds)
      least_begin.push_back(of > kMuchSlower * least ? problem_.shape.model.layers / 2 : 0);
    if (std::count(least_begin.begin(), least_begin.end(), 0) == static_cast<std::ptrdiff_t>(classes.size()))
      return;
    std::set<const Replicated*> seen;
    for (const std::unique_ptr<Cut>& cut : all.cut) {
      if (stopped() || seen.size() == kMostLater) return;
      Replicated& of = cut->of;
      if (cut->search.relaxed_seconds() > MostHopefulSeconds() || !seen.insert(&of).second) continue;
      Cut later(of, SumModel(predictor_, classes, of.routes.most, std::max(1, of.degree), least_begin),
                EvenCuts(kLaterParts), stop_);
      later.search.Relax();
      best_.priced_shapes += later.search.priced();
      // With as long a step these are other plans.
      if (later.search.relaxed_seconds() > MostHopefulSeconds()) continue;
      for (const ClassedPlan& plan : later.search.Run()) Judge(of.table, later.search, plan);
    }
  }

  // What the bound needs of a search over all classes.
  void RememberFor(const Searches& all) {
    busy_seconds_ = kNever;
    double least = kNever;
    for (const std::unique_ptr<Cut>& cut : all.cut) {
      least = std::min(least, cut->search.relaxed_seconds());
      busy_seconds_ = std::min(busy_seconds_, cut->search.LowerBoundSeconds());  // of all degrees
    }
    const double of_use = kOfUse * std::max(least, best_.step_seconds);
    for (const std::unique_ptr<Cut>& cut : all.cut) {
      if (cut->search.relaxed_seconds() > of_use) continue;
      for (const RouteShape& shape : cut->search.Shapes())
        known_shapes_.push_back(InAllKinds(cut->of.table, shape));
    }
  }

  void Bound() {
    for (const JudgedPlan& start : starts_) {
      if (start.step_seconds > kOfUse * best_.step_seconds) continue;
      for (const ShapedRoutes& of : start.plan.routes) known_shapes_.push_back(of.shape);
    }
    const KnownPlans known{.shapes = std::move(known_shapes_),
                           .step_seconds = best_.step_seconds,
                           .routes = static_cast<int>(best_.plan.routes.size()),
                           .shards_optimizer = best_.plan.shards_optimizer};
    best_.busy_seconds = best_.lower_bound_seconds = busy_seconds_;
    if (keeps_batches_) return;  // what is said of routes is said of 1F1B
    // Of longer routes than are searched, too.
    if (const int stages = MostStagesOf(problem_); stages <= kMostBoundedStages) {
      best_.lower_bound_seconds =
          std::max(busy_seconds_, LowerBoundSeconds(problem_, classes_, memories_, known, layers_on_hosts_,
                                                    stages, most_routes_, stop_));
    }
    // Of a site or rack that could not keep up if it computed all the time no more need be known.
    const auto at_home = [&](PlanningProblem home) {
      if (WorkSeconds(home) >= best_.step_seconds) return best_.step_seconds;
      home.constraints.synthesised_orders = false;
      const absl::StatusOr<PlanByClass> plan = PlanByClasses(home, stop_);
      // That none was found that fits there does not say that none does.
      return plan.ok() ? plan->lower_bound_seconds : 0;
    };
    best_.lower_bound_seconds =
        std::max(best_.lower_bound_seconds,
                 PlaceBoundSeconds(problem_, best_.lower_bound_seconds, best_.step_seconds, at_home));
  }

  // The tables of all classes and degrees, whose kinds are the same: of as many replicas, twice as many each time.
  StageTable& TableOf(int replicas) {
    const auto least = std::bit_floor(static_cast<unsigned>(replicas));
    std::unique_ptr<StageTable>& table = tables_[static_cast<int>(least)];
    if (table == nullptr) {
      table = std::make_unique<StageTable>(problem_, classes_, memories_, ShareOf(static_cast<int>(least)),
                                           TableScope{.layers_on_hosts = layers_on_hosts_,
                                                      .most_routes = 2 * static_cast<int>(least),
                                                      .least_routes = static_cast<int>(least)});
    }
    return *table;
  }

  // Of a table of some degree or classes alone.
  RouteShape InAllKinds(const StageTable& from, RouteShape shape) {
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

  // `predict`: the step of a plan, infinite where it has no place or does not fit.
  MovesBetween Moves(std::function<double(const StageTable&, const ClassedPlan&)> predict) {
    return {.table_of = [&](int replicas) -> StageTable& { return TableOf(replicas); },
            .sums_of = [&](int replicas, int least_degree) -> const SumModel& {
              const auto most = static_cast<int>(std::bit_ceil(static_cast<unsigned>(replicas)));
              return SumsOf(sums_, classes_, most, least_degree);
            },
            .predict = std::move(predict),
            .resources = &resources_,
            .most_routes = most_routes_,
            .most_stages = most_stages_};
  }

  // From the fastest of several numbers of replicas and degrees.
  void Improve() {
    std::stable_sort(starts_.begin(), starts_.end(), IsFaster);
    std::vector<JudgedPlan> judged;
    LocalSearch search(Moves([&](const StageTable& table, ClassedPlan plan) {
                         const double seconds = judge_.StepSeconds(table, plan, nullptr);
                         if (seconds < kNever) judged.push_back({plan, seconds});
                         return seconds;
                       }),
                       stop_);
    int left = std::clamp(kImprovingWork / static_cast<int>(problem_.devices.size()), kFewestPredictions,
                          kMostPredictions);
    std::set<std::pair<int, int>> seen;
    for (const JudgedPlan& start : starts_) {
      if (left == 0 || seen.size() == kMostStarts || start.step_seconds > kNearBest * best_.step_seconds)
        break;
      const auto octave = static_cast<int>(std::bit_width(static_cast<unsigned>(start.plan.replicas())));
      if (!seen.insert({octave, DegreeOf(start.plan)}).second) continue;
      const int most = (left + 1) / 2;
      left -= search.ImproveFrom(start.plan, start.step_seconds, most);
    }
    std::move(judged.begin(), judged.end(), std::back_inserter(starts_));
  }

  // The most of first stages.
  int DegreeOf(const ClassedPlan& plan) {
    int degree = 1;
    for (const ShapedRoutes& of : plan.routes)
      degree = std::max(degree, TableOf(1).kinds()[of.shape.stages[0].kind].degree);
    return degree;
  }

  // Each up to four times as many as the one before.
  std::vector<RouteCount> RangesTo(int most_routes) const {
    std::vector<RouteCount> ranges;
    const int devices = static_cast<int>(problem_.devices.size());
    for (int64_t most = std::max(1, devices / kMostStagesByClasses), least = 1; least <= most_routes;
         most *= 4) {
      ranges.push_back({static_cast<int>(least), static_cast<int>(std::min<int64_t>(most, most_routes))});
      least = most + 1;
    }
    return ranges;
  }

  // Into how many parts layers are cut, which stages have one or several of: the fewer they are the more alike are
  // replicas cut, and the faster their sums. 0: single layers, for replicas of many devices.
  static std::vector<int> PartsFor(int devices_of_replica) {
    std::vector<int> parts = {12, 6, 4, 3, 2, 1};
    if (devices_of_replica >= kManyDevices) parts.insert(parts.begin(), 0);
    return parts;
  }
  std::vector<int> EvenCuts(int parts) const {
    std::vector<int> cuts;
    const int layers = problem_.shape.model.layers;
    if (parts >= layers) return cuts;
    for (int part = 0; part <= parts && parts > 0; ++part)
      cuts.push_back((layers * part + parts - 1) / parts);
    return cuts;
  }

  // Places and predicts what may be the fastest of them; false: there is nothing to be expected of it.
  bool LookAt(Cut& cut) {
    const double relaxed = cut.search.relaxed_seconds();
    if (relaxed == kNever || stopped()) return false;
    if (found_any() && relaxed > MostHopefulSeconds()) return false;
    // More replicas that do no more are the same ones.
    const auto alike = [&](const std::pair<int, double>& looked) {
      return looked.first == cut.of.degree && std::abs(looked.second - relaxed) < kAlike * relaxed;
    };
    if (std::any_of(looked_at_.begin(), looked_at_.end(), alike)) return false;
    looked_at_.push_back({cut.of.degree, relaxed});
    for (const ClassedPlan& plan : cut.search.Run()) Judge(cut.of.table, cut.search, plan);
    return true;
  }

  // Of plans of at least so many replicas.
  double ShareOf(int replicas) const {
    if (!problem_.constraints.saves_memory) return 1;
    return OwnShare(replicas);
  }

  // Leaves out the class that does least among those without which sums take much less, if there is one.
  bool LeaveOutSlowest(std::vector<DeviceClass>& classes) {
    const auto sum_seconds = [&](const std::vector<DeviceClass>& of) {
      int devices = 0;
      for (const DeviceClass& one : of) devices += one.devices;
      return SumModel(predictor_, of, std::min(devices, kMostSummed), /*least_degree=*/1)
          .Seconds(kSampleElements);
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

  void Judge(const StageTable& table, ClassSearch& search, ClassedPlan found) {
    if (found_any() && found.estimated_seconds > MostHopefulSeconds()) return;
    const double seconds = judge_.StepSeconds(
        table, found, [&](const std::vector<ShapedRoutes>& routes) { return search.Distribute(routes); });
    if (seconds == kNever) return;
    for (ShapedRoutes& of : found.routes) of.shape = InAllKinds(table, std::move(of.shape));
    starts_.push_back({std::move(found), seconds});
  }

  // Estimates fall short of predictions, of some plans by little and of others by half.
  double MostHopefulSeconds() const { return kHopeless * best_.step_seconds; }

  const PlanningProblem& problem_;
  const std::atomic<bool>* const stop_;
  const bool keeps_batches_ = ScheduleByClasses(problem_.constraints) == Schedule::kGPipe;
  AlikeRoutePredictor predictor_;
  const std::vector<DeviceClass>& classes_;
  StageMemories memories_;
  bool layers_on_hosts_ = false;
  // Of all classes and degrees, by replicas.
  std::map<int, std::unique_ptr<StageTable>> tables_;
  SumModels sums_;
  SumsOfClasses sums_of_classes_{predictor_, classes_};
  const Resources resources_{problem_, classes_};
  std::vector<JudgedPlan> starts_;  // whose kinds are those of `tables_`
  std::vector<RouteShape> known_shapes_;
  double busy_seconds_ = 0;
  int most_stages_ = 0, most_routes_ = 0;
  std::vector<std::pair<int, double>> looked_at_;  // degrees and relaxed seconds
  PlanByClass best_;
  PlanJudge judge_{predictor_, best_};
};

}  // namespace

absl::StatusOr<PlanByClass> PlanByClasses(const PlanningProblem& problem, const std::atomic<bool>* stop) {
  return Planning(problem, stop).Run();
}

bool CanPlanByClasses(const PlanningProblem& problem) {
  std::set<int> processors;
  for (const DeviceCost& device : problem.devices) processors.insert(device.processor);
  return processors.size() == problem.devices.size();
}

}  // namespace medley
