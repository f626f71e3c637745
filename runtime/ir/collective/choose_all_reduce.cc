#include "runtime/ir/collective/choose_all_reduce.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/types/span.h"
#include "runtime/ir/collective/chunk_size.h"
#include "runtime/ir/collective/collective_time.h"
#include "runtime/ir/collective/ring_order.h"

namespace medley {
namespace {

constexpr size_t kMostLevels = 8;
// Uneven slices must be worth it: predictions are not that exact.
constexpr double kWorthwhile = 0.95;
// An edge so much slower than the fastest makes uneven slices worth a try.
constexpr double kUneven = 1.25;

// Whether some group joins parts of which one has so many times as many members as another: each of the small one's would be
// in as many rings, which takes long, to be found out as well.
bool JoinsUnlikeParts(const GroupShape& shape) {
  constexpr int kMostRings = 16;
  std::vector<int> members(shape.order.size(), 1);  // of the parts
  const auto are_unlike = [&](size_t first, size_t end) {
    const auto [least, most] = std::minmax_element(members.begin() + first, members.begin() + end);
    return *most > kMostRings * *least;
  };
  for (const std::vector<int>& sizes : shape.levels) {
    std::vector<int> joined;
    size_t first = 0;
    for (const int size : sizes) {
      if (are_unlike(first, first + size)) return true;
      joined.push_back(std::accumulate(members.begin() + first, members.begin() + first + size, 0));
      first += size;
    }
    members = std::move(joined);
  }
  return are_unlike(0, members.size());
}

class Choosing {
 public:
  Choosing(const CollectiveProblem& problem, std::optional<CollectiveAlgorithm> forced)
      : problem_(problem), forced_(forced), ring_(RingOrder(problem)) {
    best_.predicted_seconds = std::numeric_limits<double>::infinity();
  }

  CollectiveChoice Run() {
    if (Wanted(CollectiveAlgorithm::kRing)) TryRings();
    for (const CollectiveAlgorithm flat :
         {CollectiveAlgorithm::kHalvingDoubling, CollectiveAlgorithm::kTree}) {
      if (Wanted(flat)) Try({flat, {ring_, {}, {}}}, /*factor=*/1);
    }
    if (Wanted(CollectiveAlgorithm::kHierarchical)) TryHierarchies();
    if (std::is_sorted(best_.shape.order.begin(), best_.shape.order.end())) best_.shape.order.clear();
    return best_;
  }

 private:
  bool Wanted(CollectiveAlgorithm algorithm) const { return !forced_.has_value() || *forced_ == algorithm; }

  void Try(CollectiveChoice choice, double factor) {
    choice.predicted_seconds = AllReduceSeconds(problem_, choice);
    const bool first = best_.predicted_seconds == std::numeric_limits<double>::infinity();
    if (first || choice.predicted_seconds < factor * best_.predicted_seconds) best_ = std::move(choice);
  }

  void TryRings() {
    Try({CollectiveAlgorithm::kRing, {ring_, {}, {}}}, /*factor=*/1);
    const int n = problem_.members;
    const int64_t slice = problem_.elements / n;
    if (n < 3 || slice < kLargestChunkElements) return;
    // The edge before a member does not carry that member's slice to be copied, the one behind it not to be
    // summed. So who sums much sends little.
    double fastest = std::numeric_limits<double>::infinity(), slowest = 0;
    int place = 0;
    for (int i = 0; i < n; ++i) {
      const double seconds = problem_.ExchangeSeconds(
          ring_[i], ring_[(i + 1) % n], problem_.wire_bytes_per_element * static_cast<double>(slice));
      fastest = std::min(fastest, seconds);
      if (seconds > slowest) slowest = seconds, place = i;
    }
    if (slowest < kUneven * fastest) return;
    for (const int member : {ring_[place], ring_[(place + 1) % n]}) {
      for (const double share : {2.0, 4.0, 16.0}) {
        std::vector<double> shares(n, 1.0);
        shares[member] = share;
        Try({CollectiveAlgorithm::kRing, {ring_, {}, std::move(shares)}}, kWorthwhile);
      }
    }
  }

  void TryHierarchies() {
    std::vector<Boundary> boundaries = BoundariesOf(problem_);
    if (boundaries.size() > kMostLevels) boundaries.erase(boundaries.begin(), boundaries.end() - kMostLevels);
    const absl::Span<const Boundary> all = boundaries;
    if (!all.empty()) TryAlong(all);
    for (size_t i = 0; all.size() > 1 && i < all.size(); ++i) TryAlong(all.subspan(i, 1));
    if (forced_.has_value() && best_.predicted_seconds == std::numeric_limits<double>::infinity())
      Try({CollectiveAlgorithm::kHierarchical, {ring_, {}, {}}}, /*factor=*/1);
  }

  void TryAlong(absl::Span<const Boundary> boundaries) {
    GroupShape shape = ShapeAlong(boundaries, ring_);
    if (JoinsUnlikeParts(shape)) return;
    Try({CollectiveAlgorithm::kHierarchical, std::move(shape)}, /*factor=*/1);
  }

  const CollectiveProblem& problem_;
  const std::optional<CollectiveAlgorithm> forced_;
  const std::vector<int> ring_;
  CollectiveChoice best_;
};

}  // namespace

GroupShape ShapeAlong(absl::Span<const Boundary> boundaries, const std::vector<int>& ring) {
  GroupShape shape;
  shape.order = ring;
  std::stable_sort(shape.order.begin(), shape.order.end(), [&](int a, int b) {
    for (size_t i = boundaries.size(); i-- > 0;) {
      if (boundaries[i][a] != boundaries[i][b]) return boundaries[i][a] < boundaries[i][b];
    }
    return false;
  });
  for (size_t level = 0; level < boundaries.size(); ++level) {
    std::vector<int>& sizes = shape.levels.emplace_back();
    for (size_t place = 0; place < shape.order.size(); ++place) {
      const int member = shape.order[place], before = place > 0 ? shape.order[place - 1] : -1;
      if (before < 0 || boundaries[level][member] != boundaries[level][before]) sizes.push_back(0);
      const bool counts =
          level == 0 || before < 0 || boundaries[level - 1][member] != boundaries[level - 1][before];
      if (counts) ++sizes.back();
    }
  }
  return shape;
}

CollectiveChoice ChooseAllReduce(const CollectiveProblem& problem,
                                 std::optional<CollectiveAlgorithm> forced) {
  if (problem.members < 2) return {forced.value_or(CollectiveAlgorithm::kRing), {}, 0};
  return Choosing(problem, forced).Run();
}

CollectiveChoice ChooseSharedRing(const CollectiveProblem& problem, const std::vector<double>& shares) {
  if (problem.members < 2) return {};
  CollectiveProblem gathering = problem;
  gathering.wire_bytes_per_element = sizeof(float);
  CollectiveChoice best;
  best.predicted_seconds = std::numeric_limits<double>::infinity();
  const auto consider = [&](std::vector<int> order) {
    const GroupShape shape{.order = std::move(order), .shares = shares};
    const double seconds =
        RingSeconds(problem, shape, SumPart::kScattered) + RingSeconds(gathering, shape, SumPart::kGathered);
    if (!best.shape.order.empty() && seconds >= best.predicted_seconds) return;
    best.shape.order = shape.order;
    best.predicted_seconds = seconds;
  };
  const std::vector<int> ring = RingOrder(problem);
  consider(ring);
  const std::vector<Boundary> boundaries = BoundariesOf(problem);
  if (!boundaries.empty()) consider(ShapeAlong(boundaries, ring).order);
  if (std::is_sorted(best.shape.order.begin(), best.shape.order.end())) best.shape.order.clear();
  return best;
}

}  // namespace medley
