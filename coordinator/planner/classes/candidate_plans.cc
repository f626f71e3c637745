#include "coordinator/planner/classes/candidate_plans.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include "coordinator/planner/classes/improve.h"

namespace medley {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// What is estimated to be so much slower than the fastest plan is not predicted.
constexpr double kHopeless = 1.01;
// Plans near the best are predicted from so many starts at most, which are no further from the best one; and so many in all, by
// devices, so that large problems take as long as others.
constexpr size_t kMostStarts = 3;
constexpr double kNearBest = 1.06;
constexpr int kImprovingWork = 150'000, kFewestPredictions = 60, kMostPredictions = 120;

}  // namespace

bool CandidatePlans::IsHopeless(double estimated_seconds) const {
  return found_any() && estimated_seconds > kHopeless * best_.step_seconds;
}

void CandidatePlans::Judge(const StageTable& table, ClassedPlan found, const PlanJudge::Deal& deal) {
  if (IsHopeless(found.estimated_seconds)) return;
  const double seconds = judge_.StepSeconds(table, found, deal);
  if (seconds == kNever) return;
  for (ShapedRoutes& of : found.routes) of.shape = tables_.InAllKinds(table, std::move(of.shape));
  judged_.push_back({std::move(found), seconds});
}

void CandidatePlans::Improve() {
  std::stable_sort(judged_.begin(), judged_.end(), IsFaster);
  std::vector<JudgedPlan> near;
  LocalSearch search(tables_.Moves([&](const StageTable& table, ClassedPlan plan) {
    const double seconds = judge_.StepSeconds(table, plan, nullptr);
    if (seconds < kNever) near.push_back({plan, seconds});
    return seconds;
  }),
                     stop_);
  int left = std::clamp(kImprovingWork / static_cast<int>(tables_.problem().devices.size()),
                        kFewestPredictions, kMostPredictions);
  std::set<std::pair<int, int>> seen;
  for (const JudgedPlan& start : judged_) {
    if (left == 0 || seen.size() == kMostStarts || start.step_seconds > kNearBest * best_.step_seconds) break;
    const auto octave = static_cast<int>(std::bit_width(static_cast<unsigned>(start.plan.replicas())));
    if (!seen.insert({octave, DegreeOf(start.plan)}).second) continue;
    const int most = (left + 1) / 2;
    left -= search.ImproveFrom(start.plan, start.step_seconds, most);
  }
  std::move(near.begin(), near.end(), std::back_inserter(judged_));
}

std::vector<RouteShape> CandidatePlans::ShapesOfUse() const {
  std::vector<RouteShape> shapes;
  for (const JudgedPlan& judged : judged_) {
    if (judged.step_seconds > kOfUse * best_.step_seconds) continue;
    for (const ShapedRoutes& of : judged.plan.routes) shapes.push_back(of.shape);
  }
  return shapes;
}

// The most of first stages.
int CandidatePlans::DegreeOf(const ClassedPlan& plan) {
  int degree = 1;
  for (const ShapedRoutes& of : plan.routes)
    degree = std::max(degree, tables_.TableOf(1).kinds()[of.shape.stages[0].kind].degree);
  return degree;
}

}  // namespace medley
