#pragma once
#include <vector>

#include "coordinator/predictor/cost_model.h"

namespace medley {

// Devices that could change places without changing any prediction but for who shares a host with whom: alike in
// what they cost and in how they reach others.
struct DeviceClass {
  std::vector<std::vector<int>> hosts;  // indices into PlanningProblem::devices, ascending, by host
  int devices = 0;
  int most_on_host = 0;

  int first() const { return hosts.front().front(); }
};

// Whether they are alike in what they cost, also with shares of the width, wherever they are.
bool AreOfOneMake(const DeviceCost& a, const DeviceCost& b);

// In the order of their first devices. Takes time in
// proportion to devices times classes where links are by ends, and to their square where every device has its own.
std::vector<DeviceClass> DeviceClassesOf(const PlanningProblem& problem);

// Of any of them: so many devices a unit at most. 1: there is none.
int MostOnHost(const std::vector<DeviceClass>& classes);

}  // namespace medley
