#include "coordinator/planner/classes/replica_rounds.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "coordinator/planner/classes/plan_by_class.h"
#include "coordinator/planner/classes/slow_sums.h"
#include "coordinator/planner/classes/stage_kind.h"

namespace medley {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kAlike = 1e-3;
// By how much more twice as many replicas are taken to be slower than they are estimated.
constexpr double kMoreReplicas = 0.01;
// After so many looks that find nothing faster no others are taken.
constexpr int kMostInVain = 6;
// Of a replica, whose stages may then begin with any layer.
constexpr int kManyDevices = 16;
// What is estimated to be so much faster is predicted at once.
constexpr double kPromising = 0.9;
// With a class that holds later layers alone so many are planned for, and cut into so many parts.
constexpr size_t kMostLater = 1;
constexpr int kLaterParts = 12;

// Into how many parts layers are cut, which stages have one or several of: the fewer they are the more alike are
// replicas cut, and the faster their sums. 0: single layers, for replicas of many devices.
std::vector<int> PartsFor(int devices_of_replica) {
  std::vector<int> parts = {12, 6, 4, 3, 2, 1};
  if (devices_of_replica >= kManyDevices) parts.insert(parts.begin(), 0);
  return parts;
}

}  // namespace

void ReplicaRounds::Run() {
  // Units of one degree sum slices as large as their shares; where degrees are mixed, the least of them counts.
  std::set<int> degrees = {0};
  for (const StageKind& kind : StageKindsOf(tables_.problem(), classes_, /*only_degree=*/0))
    degrees.insert(kind.degree);
  if (degrees.size() == 2) degrees.erase(0);
  for (const int degree : degrees) Relax(degree);
  LookAtBest();
  LookAtLater();
}

void ReplicaRounds::Relax(int degree) {
  std::map<int, std::vector<RouteShape>> shapes;  // that were worth something so far, by parts
  const std::vector<RouteCount> ranges = Ranges();
  // Many replicas of few stages are planned for and predicted in no time, and may be the best.
  for (auto routes = ranges.rbegin(); routes != ranges.rend() && !stopped(); ++routes) {
    std::unique_ptr<StageTable> table = tables_.TableOver(classes_, *routes, degree);
    std::vector<ShapePricing> pricings = PricingsOf(*table, tables_.most_stages());
    Replicated& of = *replicated_.emplace_back(
        std::make_unique<Replicated>(Replicated{std::move(table), sums_.Of(routes->most, std::max(1, degree)),
                                                std::move(pricings), degree, *routes}));
    for (const int parts : PartsFor(static_cast<int>(tables_.problem().devices.size()) / routes->least)) {
      Cut& cut = *cut_.emplace_back(std::make_unique<Cut>(of, of.sums, EvenCuts(parts), stop_));
      ClassSearch& search = cut.search;
      // Not if they computed all the time.
      if (candidates_.found_any() && search.LowerBoundSeconds() > candidates_.best_seconds()) break;
      for (const RouteShape& shape : shapes[parts]) search.Suggest(shape);
      search.Relax();
      priced_ += search.priced();
      const double relaxed = search.relaxed_seconds();
      if (relaxed < kNever) shapes[parts] = search.Shapes();
      // A good plan soon, however early planning is stopped.
      if (!candidates_.found_any() || relaxed < kPromising * candidates_.best_seconds()) LookAt(cut);
      // What is cut into fewer parts is not faster, but for its sums.
      if (candidates_.IsHopeless(relaxed)) break;
    }
  }
}

// The best ones first: the others are then seldom worth a look. The more replicas there are, the more are their sums
// underestimated.
void ReplicaRounds::LookAtBest() {
  const auto hope = [](const std::unique_ptr<Cut>& cut) {
    return cut->search.relaxed_seconds() * (1 + kMoreReplicas * std::log2(cut->of.routes.most));
  };
  std::stable_sort(cut_.begin(), cut_.end(), [&](const auto& a, const auto& b) { return hope(a) < hope(b); });
  int in_vain = 0;
  for (const std::unique_ptr<Cut>& cut : cut_) {
    const double before = candidates_.best_seconds();
    if (!LookAt(*cut)) continue;
    in_vain = candidates_.best_seconds() < before ? 0 : in_vain + 1;
    if (in_vain == kMostInVain) break;
  }
}

// As the best are planned for, with slow classes on the last half of the layers alone, which are theirs and others'.
void ReplicaRounds::LookAtLater() {
  if (!candidates_.found_any()) return;
  const std::vector<int> least_begins = LeastBegins(tables_.predictor(), classes_);
  if (least_begins.empty()) return;
  std::set<const Replicated*> seen;
  for (const std::unique_ptr<Cut>& cut : cut_) {
    if (stopped() || seen.size() == kMostLater) return;
    Replicated& of = cut->of;
    if (candidates_.IsHopeless(cut->search.relaxed_seconds()) || !seen.insert(&of).second) continue;
    Cut later(of,
              SumModel(tables_.predictor(), classes_, of.routes.most, std::max(1, of.degree), least_begins),
              EvenCuts(kLaterParts), stop_);
    later.search.Relax();
    priced_ += later.search.priced();
    // With as long a step these are other plans.
    if (!candidates_.IsHopeless(later.search.relaxed_seconds())) JudgeAll(later);
  }
}

// Places and predicts what may be the fastest of them; false: there is nothing to be expected of it.
bool ReplicaRounds::LookAt(Cut& cut) {
  const double relaxed = cut.search.relaxed_seconds();
  if (relaxed == kNever || stopped() || candidates_.IsHopeless(relaxed)) return false;
  // More replicas that do no more are the same ones.
  const auto alike = [&](const std::pair<int, double>& looked) {
    return looked.first == cut.of.degree && std::abs(looked.second - relaxed) < kAlike * relaxed;
  };
  if (std::any_of(looked_at_.begin(), looked_at_.end(), alike)) return false;
  looked_at_.push_back({cut.of.degree, relaxed});
  JudgeAll(cut);
  return true;
}

void ReplicaRounds::JudgeAll(Cut& cut) {
  for (const ClassedPlan& plan : cut.search.Run()) {
    candidates_.Judge(*cut.of.table, plan,
                      [&](const std::vector<ShapedRoutes>& routes) { return cut.search.Distribute(routes); });
  }
}

double ReplicaRounds::BusySeconds() const {
  double seconds = kNever;
  for (const std::unique_ptr<Cut>& cut : cut_) seconds = std::min(seconds, cut->search.LowerBoundSeconds());
  return seconds;
}

std::vector<RouteShape> ReplicaRounds::ShapesOfUse() const {
  double least = kNever;
  for (const std::unique_ptr<Cut>& cut : cut_) least = std::min(least, cut->search.relaxed_seconds());
  const double of_use = kOfUse * std::max(least, candidates_.best_seconds());
  std::vector<RouteShape> shapes;
  for (const std::unique_ptr<Cut>& cut : cut_) {
    if (cut->search.relaxed_seconds() > of_use) continue;
    for (const RouteShape& shape : cut->search.Shapes())
      shapes.push_back(tables_.InAllKinds(*cut->of.table, shape));
  }
  return shapes;
}

// Each up to four times as many as the one before, and up to a power of two, which sums are halved by with none too many.
std::vector<RouteCount> ReplicaRounds::Ranges() const {
  std::vector<RouteCount> ranges;
  const int devices = static_cast<int>(tables_.problem().devices.size()), most_routes = tables_.most_routes();
  const auto fewest = static_cast<unsigned>(std::max(1, devices / kMostStagesByClasses));
  for (int64_t most = std::bit_ceil(fewest), least = 1; least <= most_routes; most *= 4) {
    ranges.push_back({static_cast<int>(least), static_cast<int>(std::min<int64_t>(most, most_routes))});
    least = most + 1;
  }
  return ranges;
}

std::vector<int> ReplicaRounds::EvenCuts(int parts) const {
  std::vector<int> cuts;
  const int layers = tables_.problem().shape.model.layers;
  if (parts >= layers) return cuts;
  for (int part = 0; part <= parts && parts > 0; ++part) cuts.push_back((layers * part + parts - 1) / parts);
  return cuts;
}

}  // namespace medley
