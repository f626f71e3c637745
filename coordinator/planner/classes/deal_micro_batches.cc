#include "coordinator/planner/classes/deal_micro_batches.h"

#include <algorithm>
#include <limits>

namespace medley {

constexpr double kNever = std::numeric_limits<double>::infinity();

std::vector<int> DevicesOf(const StageTable& table, const std::vector<ShapedRoutes>& routes) {
  std::vector<int> devices(table.classes().size(), 0);
  for (const ShapedRoutes& of : routes) {
    const std::vector<int> own = DevicesOf(table, of.shape);
    for (size_t c = 0; c < own.size(); ++c) devices[c] += of.routes * own[c];
  }
  return devices;
}

int ReplicasOf(const std::vector<ShapedRoutes>& routes) {
  int all = 0;
  for (const ShapedRoutes& of : routes) all += of.routes;
  return all;
}

int RoutesOf(const std::vector<ShapedRoutes>& routes) {
  int all = 0;
  for (const ShapedRoutes& of : routes) all += of.routes * of.shape.routes();
  return all;
}

bool HasBundles(const ClassedPlan& plan) {
  return std::any_of(plan.routes.begin(), plan.routes.end(),
                     [](const ShapedRoutes& of) { return of.shape.is_bundle(); });
}

ClassedPlan DealMicroBatches(const std::vector<TimedRoutes>& all, double sequences, double least_seconds) {
  const auto done_by = [&](double seconds) {
    double done = 0;
    for (const TimedRoutes& of : all)
      done += of.routes * of.clock->sequences() * of.clock->MicroBatchesBy(seconds, *of.after_seconds);
    return done;
  };
  const double high =
      LeastSeconds(least_seconds, 1e-7, [&](double seconds) { return done_by(seconds) >= sequences; });
  if (high == kNever) return {};
  double excess = done_by(high) - sequences;
  struct Share {
    const TimedRoutes* of;
    int routes, micro_batches;
    double EndSeconds() const { return of->clock->Seconds(micro_batches, *of->after_seconds); }
  };
  std::vector<Share> shares;
  for (const TimedRoutes& of : all) {
    const int micro_batches = of.clock->MicroBatchesBy(high, *of.after_seconds);
    if (micro_batches > 0) shares.push_back({&of, of.routes, micro_batches});
  }
  // One less for some routes, those that end last first.
  while (excess > 0) {
    int last = -1;
    for (int i = 0; i < static_cast<int>(shares.size()); ++i) {
      const Share& share = shares[i];
      if (share.micro_batches < 2 || share.of->clock->sequences() > excess) continue;
      if (last < 0 || share.EndSeconds() > shares[last].EndSeconds()) last = i;
    }
    if (last < 0) return {};  // the sizes do not add up to the batch
    const int size = shares[last].of->clock->sequences();
    const int fewer = std::min(shares[last].routes, static_cast<int>(excess / size));
    if (fewer == shares[last].routes) {
      --shares[last].micro_batches;
    } else {
      shares[last].routes -= fewer;
      shares.push_back({shares[last].of, fewer, shares[last].micro_batches - 1});
    }
    excess -= static_cast<double>(fewer) * size;
  }
  ClassedPlan plan;
  for (const Share& share : shares) {
    plan.estimated_seconds = std::max(plan.estimated_seconds, share.EndSeconds());
    plan.routes.push_back({share.of->clock->shape(), share.routes, share.micro_batches});
  }
  return plan;
}

}  // namespace medley
