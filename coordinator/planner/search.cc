#include "coordinator/planner/search.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "coordinator/planner/memory_shortage.h"
#include "coordinator/planner/techniques/memory_saving.h"

namespace medley {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Sums of the same times in another order differ by less than this, relatively.
constexpr double kRounding = 1e-12;
// Simulations that an arrangement gets before the others have had theirs.
constexpr int64_t kFirstVisit = 200;
// Arrangements, best bound first, near which a good plan is looked for before the exact search.
constexpr size_t kImproved = 30;
constexpr size_t kBestPipelines = 12;
// Of the limit, what searching unlike micro-batch sizes may use at least, if need be beside it.
constexpr int64_t kLeastPartForUnlikeSizes = 8;
// Stages that bounds look at, in all what one simulated instruction costs; and what choosing a reduction costs for
// each member, in simulated instructions.
constexpr int64_t kStagesAnInstruction = 40, kChoiceInstructions = 50;

PlanningProblem Unslowed(PlanningProblem problem) {
  for (DeviceCost& device : problem.devices) device.shared_slowdown = 1;
  return problem;
}

SearchTables::UnitRanks RanksOf(const PlanningProblem& problem, const std::vector<SharedUnit>& units) {
  SearchTables::UnitRanks ranks;
  for (const SharedUnit& unit : units) {
    std::vector<SearchTables::UnitRank>& of_unit = ranks.emplace_back();
    for (size_t m = 0; m < unit.devices.size(); ++m) {
      const DeviceCost& device = problem.devices[unit.devices[m]];
      const std::optional<RankCosts> costs = CostsOf(device, problem.shape.model, unit.shares[m]);
      of_unit.push_back({unit.shares[m], costs ? costs->room : DeviceRoom{.memory = device.room.memory}});
    }
  }
  return ranks;
}

std::vector<int> InOrder(size_t count) {
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  return order;
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
  double unfinished_bound = EnoughLists() ? LayersSharedPerfectlySeconds() : kInfinity;
  unfinished_bound = std::min(unfinished_bound, SearchAll(arrangements));
  unfinished_bound = std::min(unfinished_bound, SearchUnlikeSizes());
  if (best_.plan.units.empty()) {
    if (limits_.stopped()) return absl::CancelledError("planning was stopped before it had found a plan");
    if (problem_.constraints.limit_devices())
      return absl::ResourceExhaustedError("none fits on devices that the constraints allow");
    return absl::ResourceExhaustedError(DescribeShortage(tables_, Shortage()));
  }
  if (!units_.empty()) return best_;
  if (passed_over_) unfinished_bound = std::min(unfinished_bound, LayersSharedPerfectlySeconds());
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

// Last: there are many, and few are better than the best plan of alike sizes.
double Search::SearchUnlikeSizes() {
  const int64_t least = limits_.max_simulated_instructions / kLeastPartForUnlikeSizes;
  const int64_t left = std::max(least, limits_.max_simulated_instructions - SpentInstructions());
  limits_.max_simulated_instructions = SpentInstructions() + left;
  // Half of what is left may go into giving out sizes.
  const int64_t sizes_end = SpentInstructions() + left / 2;
  for (Arrangement& of_any : of_unlike_sizes_) of_any.bound_seconds = LeastSecondsOfAnySizes(of_any);
  SortByBound(of_unlike_sizes_);
  double unfinished_bound = kInfinity;
  std::vector<Arrangement> arrangements;
  for (Arrangement& of_any : of_unlike_sizes_) {
    if (of_any.bound_seconds >= Below(of_any.units)) continue;
    if (limits_.stopped() || SpentInstructions() >= sizes_end) {
      unfinished_bound = std::min(unfinished_bound, of_any.bound_seconds);
      continue;
    }
    GiveUnlikeSizes(of_any, arrangements);
  }
  of_unlike_sizes_.clear();
  return std::min(unfinished_bound, SearchAll(arrangements));
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

// No plan is faster: all layers' work, divided over all devices without loss, each with its best micro-batch size.
double Search::LayersSharedPerfectlySeconds() const {
  double sequences_a_second = 0;  // of one layer
  for (const DeviceCost& device : problem_.devices) {
    double best = 0;
    for (size_t size = 0; size < problem_.micro_batch_sizes.size(); ++size) {
      const PassTimes& layer = device.times[size].layer;
      best = std::max(best, problem_.micro_batch_sizes[size] /
                                std::max(1e-300, layer.forward_seconds + layer.backward_seconds));
    }
    sequences_a_second += best;
  }
  return problem_.shape.global_batch_sequences * problem_.shape.model.layers / sequences_a_second;
}

RouteBounds::Work Search::WorkOf(const Arrangement& arrangement, size_t route, int micro_batches) const {
  return {.list = arrangement.lists[route],
          .size = arrangement.sizes[route],
          .schedule = arrangement.schedule,
          .micro_batches = micro_batches,
          .replicated = arrangement.lists.size() > 1,
          .shards_optimizer = arrangement.shards_optimizer,
          .homes_layers = arrangement.homes_layers};
}

double Search::Bound(const Arrangement& arrangement, size_t route, int micro_batches) {
  return bounds_.Bound(WorkOf(arrangement, route, micro_batches)) + arrangement.fixed_seconds();
}

bool Search::Take(int device_class, Taken& taken) const {
  taken.devices += units_.empty() ? 1 : static_cast<int>(units_.front().devices.size());  // all have as many
  taken.price_per_hour += tables_.Cost(device_class).price_per_hour;
  return problem_.constraints.Allow(taken.devices, taken.price_per_hour);
}

// The fastest devices, one to as many as are allowed, each with the whole model or in one pipeline; and so those that
// are fastest for their price, where that is limited.
std::vector<Search::Arrangement> Search::ObviousArrangements() {
  std::vector<int> order;
  for (int c = 0; c < static_cast<int>(tables_.classes().size()); ++c) {
    order.insert(order.end(), tables_.classes()[c].size(), c);
  }
  const int whole = tables_.blocks();
  const auto seconds = [&](int c) {
    return tables_.ForwardSeconds(c, 0, {0, whole}) + tables_.BackwardSeconds(c, 0, {0, whole});
  };
  const auto cost = [&](int c) { return seconds(c) * tables_.Cost(c).price_per_hour; };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return seconds(a) < seconds(b); });
  std::vector<Arrangement> obvious;
  AddObvious(order, obvious);
  if (problem_.constraints.most_price_per_hour > 0) {
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return cost(a) < cost(b); });
    AddObvious(std::move(order), obvious);
  }
  SortByBound(obvious);
  of_unlike_sizes_.clear();  // all are enumerated yet
  return obvious;
}

void Search::AddObvious(std::vector<int> order, std::vector<Arrangement>& obvious) {
  Taken taken;
  std::erase_if(order, [&](int c) {
    Taken with = taken;
    if (!Take(c, with)) return true;
    taken = with;
    return false;
  });
  for (size_t count = 1; count <= order.size() && !limits_.stopped(); ++count) {
    const std::vector<int> fastest(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count));
    Lists apart;
    for (const int c : fastest) apart.push_back({c});
    std::sort(apart.begin(), apart.end());
    const int n = static_cast<int>(count);
    if (n <= space_.max_routes && n >= space_.min_routes && space_.min_stages <= 1)
      AddArrangements(apart, obvious);
    if (n <= space_.max_stages && n >= space_.min_stages && space_.min_routes <= 1) {
      AddArrangements({fastest}, obvious);
      AddArrangements({std::vector<int>(fastest.rbegin(), fastest.rend())}, obvious);
    }
  }
}

void Search::TryObviousLists() {
  for (const Arrangement& arrangement : ObviousArrangements()) {
    if (OutOfBudget()) return;
    if (arrangement.bound_seconds < Below(arrangement.units)) GreedyChoice(arrangement);
  }
}

// The counts and splits that look best by bound, simulated once. Empty if nothing fits.
std::vector<Search::RouteChoice> Search::GreedyChoice(const Arrangement& arrangement) {
  const std::vector<int> counts = BestCounts(arrangement);
  std::vector<RouteChoice> choice;
  for (size_t r = 0; r < counts.size(); ++r) {
    const RouteBounds::Work work = WorkOf(arrangement, r, counts[r]);
    std::vector<RouteBounds::Split> splits;
    for (const double slack : {1.001, 1.01, 1.1, kInfinity}) {
      splits = bounds_.Splits(work, bounds_.Bound(work) * slack + 1e-300, 1000);
      if (!splits.empty()) break;
    }
    if (splits.empty()) return {};
    choice.push_back({counts[r], splits[0].ends});
  }
  if (!choice.empty()) Simulate(arrangement, choice, InOrder(choice.size()));
  return choice;
}

// Moves single blocks between neighbouring stages and as few micro-batches as can be between routes while that helps.
void Search::Improve(const Arrangement& arrangement) {
  std::vector<RouteChoice> choice = GreedyChoice(arrangement);
  if (choice.empty()) return;
  const std::vector<int> order = InOrder(choice.size());
  double seconds = Simulate(arrangement, choice, order);
  const auto try_choice = [&](const std::vector<RouteChoice>& changed) {
    if (BoundOfChoice(arrangement, changed) >= seconds) return false;
    const double changed_seconds = Simulate(arrangement, changed, order);
    if (changed_seconds >= seconds) return false;
    seconds = changed_seconds;
    choice = changed;
    return true;
  };
  for (bool better = true; better && !OutOfBudget();) {
    better = false;
    for (size_t r = 0; r < choice.size(); ++r) {
      for (size_t s = 0; s + 1 < choice[r].ends.size(); ++s) {
        for (const int step : {-1, 1}) {
          std::vector<RouteChoice> changed = choice;
          changed[r].ends[s] = changed[r].ends[s] + step;
          if (try_choice(changed)) better = true;
        }
      }
      for (size_t to = 0; to < choice.size(); ++to) {
        const int sequences = std::lcm(SequencesOf(arrangement, r), SequencesOf(arrangement, to));
        const int taken = sequences / SequencesOf(arrangement, r);
        if (to == r || choice[r].micro_batches <= taken) continue;
        std::vector<RouteChoice> changed = choice;
        changed[r].micro_batches -= taken;
        changed[to].micro_batches += sequences / SequencesOf(arrangement, to);
        if (try_choice(changed)) better = true;
      }
    }
  }
}

// The bound of one complete choice; infinite if it does not fit.
double Search::BoundOfChoice(const Arrangement& arrangement, const std::vector<RouteChoice>& choice) {
  double bound = 0;
  std::map<int, double> processors;
  for (size_t r = 0; r < choice.size(); ++r) {
    bound = std::max(bound,
                     bounds_.BoundOfSplit(WorkOf(arrangement, r, choice[r].micro_batches), choice[r].ends));
    for (size_t s = 0; arrangement.shares_processor && s < choice[r].ends.size(); ++s) {
      const int c = bounds_.ClassesOf(arrangement.lists[r])[s];
      const BlockRange blocks = choice[r].blocks(s);
      if (blocks.size() < 1) break;
      const DeviceCost& cost = problem_.devices[arrangement.devices[r][s]];
      processors[cost.processor] +=
          choice[r].micro_batches * (tables_.ForwardSeconds(c, arrangement.sizes[r], blocks) +
                                     tables_.BackwardSeconds(c, arrangement.sizes[r], blocks));
      if (arrangement.shards_optimizer) continue;
      processors[cost.processor] +=
          static_cast<double>(tables_.Parameters(blocks)) * cost.update_seconds_per_parameter;
    }
  }
  for (const auto& [processor, seconds] : processors) bound = std::max(bound, seconds);
  return bound + arrangement.fixed_seconds();
}

// When each unit of a route has run its last backward, as if there were no other routes and nothing slowed
// anything down.
const std::vector<double>& Search::LastBackwards(const Arrangement& arrangement, size_t route,
                                                 const RouteChoice& choice) {
  std::vector<int> key(choice.ends.begin(), choice.ends.end());
  key.insert(key.end(), {arrangement.lists[route], arrangement.sizes[route],
                         static_cast<int>(arrangement.schedule), choice.micro_batches});
  const auto [entry, inserted] = last_backwards_.try_emplace(std::move(key));
  if (!inserted) return entry->second;
  Arrangement alone{.sizes = {arrangement.sizes[route]}, .schedule = arrangement.schedule};
  alone.lists = {arrangement.lists[route]};
  alone.devices = {arrangement.devices[route]};
  ++best_.simulated_plans;
  const absl::StatusOr<double> seconds = unslowed_simulator_.Run(PlanOf(alone, {choice}, {0}));
  const int degree = units_.empty() ? 1 : static_cast<int>(units_.front().devices.size());  // of all
  for (int s = 0; s < static_cast<int>(choice.ends.size()); ++s) {
    entry->second.push_back(seconds.ok() ? unslowed_simulator_.LastBackwardSeconds(s * degree) : kInfinity);
  }
  return entry->second;
}

double Search::Simulate(const Arrangement& arrangement, const std::vector<RouteChoice>& choice,
                        const std::vector<int>& order) {
  if (is_kept_best_ && FitsAsItIs(arrangement, choice)) return kInfinity;
  if (arrangement.shards_optimizer || arrangement.homes_layers)
    return SimulateSaving(arrangement, choice, order);
  return Simulate(PlanOf(arrangement, choice, order), arrangement.units);
}

double Search::Simulate(Plan plan, int units) {
  ++best_.simulated_plans;
  const absl::StatusOr<double> seconds = simulator_.Run(plan);
  if (!seconds.ok()) return kInfinity;
  // Orders are not made for copies.
  const bool has_homes = std::any_of(plan.units.begin(), plan.units.end(),
                                     [](const Unit& unit) { return unit.window_layers > 0; });
  if (problem_.constraints.synthesised_orders && HasPipeline(plan) && !has_homes)
    KeepPipeline(plan, *seconds);
  if (*seconds < Below(units)) {
    best_.plan = std::move(plan);
    best_.step_seconds = *seconds;
  }
  return *seconds;
}

void Search::KeepPipeline(const Plan& plan, double seconds) {
  const auto is_alike = [&](const PredictedPlan& kept) {
    return DevicesOf(kept.plan) == DevicesOf(plan) &&
           std::equal(kept.plan.routes.begin(), kept.plan.routes.end(), plan.routes.begin(),
                      plan.routes.end(), [](const Route& a, const Route& b) {
                        return a.micro_batch_sequences == b.micro_batch_sequences;
                      });
  };
  const auto alike = std::find_if(best_pipelines_.begin(), best_pipelines_.end(), is_alike);
  if (alike != best_pipelines_.end()) {
    if (alike->step_seconds <= seconds) return;
    best_pipelines_.erase(alike);
  }
  const auto after =
      std::upper_bound(best_pipelines_.begin(), best_pipelines_.end(), seconds,
                       [](double s, const PredictedPlan& kept) { return s < kept.step_seconds; });
  best_pipelines_.insert(after, {plan, seconds});
  if (best_pipelines_.size() > kBestPipelines) best_pipelines_.pop_back();
}

Plan Search::PlanOf(const Arrangement& arrangement, const std::vector<RouteChoice>& choice,
                    const std::vector<int>& order) {
  Plan plan{.schedule = arrangement.schedule};
  for (const int r : order) {
    Route& route = plan.routes.emplace_back();
    route.micro_batches = choice[r].micro_batches;
    route.micro_batch_sequences = SequencesOf(arrangement, r);
    const std::vector<Recompute> recomputes =
        bounds_.RecomputesOf(WorkOf(arrangement, r, choice[r].micro_batches), choice[r].ends);
    for (size_t s = 0; s < choice[r].ends.size(); ++s) {
      route.units.push_back(static_cast<int>(plan.units.size()));
      const int d = arrangement.devices[r][s];
      const DeviceCost& device = problem_.devices[d];
      Unit& unit = plan.units.emplace_back();
      unit.chunks = {choice[r].blocks(s)};
      unit.activations = device.activations;
      unit.recompute = recomputes[s];
      if (units_.empty()) {
        unit.devices = {device.name};
        continue;
      }
      for (const int rank : units_[d].devices) unit.devices.push_back(simulated_.devices[rank].name);
      const int degree = static_cast<int>(unit.devices.size());
      if (units_[d].shares != EvenShares(problem_.shape.model, degree)) unit.shares = units_[d].shares;
    }
  }
  return plan;
}

double Search::Below(int units) const {
  if (best_.plan.units.empty()) return kInfinity;
  const bool fewer_units = units < static_cast<int>(best_.plan.units.size());
  return best_.step_seconds * (fewer_units ? 1 + kRounding : 1 - kRounding);
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
