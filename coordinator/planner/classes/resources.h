#pragma once
#include <vector>

#include "coordinator/predictor/cost_model.h"
#include "coordinator/predictor/device_classes.h"

namespace medley {

// What the routes of a plan share: the devices of each class, and behind them what the constraints limit of all devices
// together, which is how many there are and what they cost an hour.
class Resources {
 public:
  Resources(const PlanningProblem& problem, const std::vector<DeviceClass>& classes);

  const std::vector<double>& limits() const { return limits_; }
  // Of each resource what so many devices of each class take.
  std::vector<double> Uses(const std::vector<int>& devices) const;
  bool Has(const std::vector<double>& uses) const;
  // How many times there is as much as that, at most `most`.
  int Times(const std::vector<double>& uses, int most) const;
  // Of a device of each class, by prices of resources.
  std::vector<double> DevicePrices(const std::vector<double>& prices) const;

 private:
  bool counts_devices_ = false, counts_price_ = false;
  std::vector<double> price_per_hour_;  // of a device of each class
  std::vector<double> limits_;
};

// What all devices of a class do, each for itself: layers of a sequence.
double LayersASecond(const PlanningProblem& problem, const DeviceClass& of);

}  // namespace medley
