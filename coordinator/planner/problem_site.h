#pragma once
#include "absl/strings/str_cat.h"
#include "coordinator/predictor/cost_model.h"
#include "runtime/ir/plan/check_plan.h"

namespace medley {

// What a plan of `problem` is checked against in tests: the room of each device, and its host's memory.
inline PlanSite SiteOf(const PlanningProblem& problem) {
  PlanSite site;
  for (const DeviceCost& device : problem.devices) {
    site.room_by_device[device.name] = device.room;
    const std::string host = device.host < 0 ? device.name : absl::StrCat(device.host);
    site.host_by_device[device.name] = {host, device.host_memory};
  }
  return site;
}

}  // namespace medley
