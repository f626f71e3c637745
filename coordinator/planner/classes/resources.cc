#include "coordinator/planner/classes/resources.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace medley {

Resources::Resources(const PlanningProblem& problem, const std::vector<DeviceClass>& classes)
    : counts_devices_(problem.constraints.most_devices > 0),
      counts_price_(problem.constraints.most_price_per_hour > 0) {
  for (const DeviceClass& of : classes) {
    limits_.push_back(of.devices);
    price_per_hour_.push_back(problem.devices[of.first()].price_per_hour);
  }
  if (counts_devices_) limits_.push_back(problem.constraints.most_devices);
  if (counts_price_) limits_.push_back(problem.constraints.most_price_per_hour * kSamePrice);
}

std::vector<double> Resources::Uses(const std::vector<int>& devices) const {
  std::vector<double> uses(devices.begin(), devices.end());
  if (counts_devices_) uses.push_back(std::accumulate(devices.begin(), devices.end(), 0));
  if (counts_price_)
    uses.push_back(std::inner_product(devices.begin(), devices.end(), price_per_hour_.begin(), 0.0));
  return uses;
}

bool Resources::Has(const std::vector<double>& uses) const {
  return std::equal(uses.begin(), uses.end(), limits_.begin(),
                    [](double use, double limit) { return use <= limit; });
}

int Resources::Times(const std::vector<double>& uses, int most) const {
  double times = most;
  for (size_t r = 0; r < limits_.size(); ++r) {
    if (uses[r] > 0) times = std::min(times, std::floor(limits_[r] / uses[r]));
  }
  return static_cast<int>(times);
}

std::vector<double> Resources::DevicePrices(const std::vector<double>& prices) const {
  const size_t classes = price_per_hour_.size();
  std::vector<double> of_device(prices.begin(), prices.begin() + static_cast<std::ptrdiff_t>(classes));
  for (size_t c = 0; c < classes; ++c) {
    if (counts_devices_) of_device[c] += prices[classes];
    if (counts_price_) of_device[c] += prices.back() * price_per_hour_[c];
  }
  return of_device;
}

double LayersASecond(const PlanningProblem& problem, const DeviceClass& of) {
  const DeviceCost& device = problem.devices[of.first()];
  double rate = 0;
  for (size_t size = 0; size < device.times.size(); ++size)
    rate = std::max(rate, problem.micro_batch_sizes[size] / device.times[size].layer.Seconds());
  return of.devices * rate;
}

}  // namespace medley
