#include "coordinator/planner/classes/slow_sums.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "coordinator/planner/classes/resources.h"
#include "coordinator/planner/classes/sum_model.h"
#include "coordinator/predictor/group_sums.h"

namespace medley {
namespace {

constexpr int64_t kSampleElements = int64_t{4} << 20;
// Classes are left out if sums of so many elements then take no more than that part of the time.
constexpr double kMuchFaster = 0.8;
// A class holds later layers alone that takes so much longer for sums over some hosts.
constexpr double kMuchSlower = 2;
constexpr size_t kSampleHosts = 4;

}  // namespace

bool LeaveOutSlowest(AlikeRoutePredictor& predictor, std::vector<DeviceClass>& classes) {
  const auto sum_seconds = [&](const std::vector<DeviceClass>& of) {
    int devices = 0;
    for (const DeviceClass& one : of) devices += one.devices;
    return SumModel(predictor, of, std::min(devices, kMostSummed), /*least_degree=*/1)
        .Seconds(kSampleElements);
  };
  if (classes.size() < 2) return false;
  const double all = sum_seconds(classes);
  std::vector<DeviceClass> best;
  double least_rate = std::numeric_limits<double>::infinity();
  for (size_t c = 0; c < classes.size(); ++c) {
    std::vector<DeviceClass> rest = classes;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(c));
    const double rate = LayersASecond(predictor.problem(), classes[c]);
    if (rate >= least_rate || sum_seconds(rest) > kMuchFaster * all) continue;
    least_rate = rate;
    best = std::move(rest);
  }
  if (best.empty()) return false;
  classes = std::move(best);
  return true;
}

std::vector<int> LeastBegins(AlikeRoutePredictor& predictor, const std::vector<DeviceClass>& classes) {
  std::vector<double> seconds;
  for (const DeviceClass& of : classes) {
    std::vector<int> devices;
    for (size_t host = 0; host < std::min(of.hosts.size(), kSampleHosts); ++host)
      devices.insert(devices.end(), of.hosts[host].begin(), of.hosts[host].end());
    seconds.push_back(
        GroupSums(predictor.samples(), std::move(devices), kMostSummed).Seconds(kSampleElements));
  }
  const double least = *std::min_element(seconds.begin(), seconds.end());
  std::vector<int> least_begins;
  bool any = false;
  for (const double of : seconds) {
    least_begins.push_back(of > kMuchSlower * least ? predictor.problem().shape.model.layers / 2 : 0);
    any = any || least_begins.back() > 0;
  }
  return any ? least_begins : std::vector<int>();
}

}  // namespace medley
