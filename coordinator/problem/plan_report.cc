#include "coordinator/problem/plan_report.h"

namespace medley {

std::vector<std::string> EmulatedInUse(const PlanReport& report) {
  std::vector<std::string> names;
  for (const Explanation::Device& device : report.explanation.devices) {
    if (device.used && report.emulated.contains(device.name)) names.push_back(device.name);
  }
  return names;
}

}  // namespace medley
