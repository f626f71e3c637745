#pragma once
#include <map>
#include <string>
#include <vector>

#include "runtime/ir/model/model_config.h"
#include "runtime/ir/plan/device_room.h"
#include "runtime/ir/plan/plan.h"

namespace medley {

struct PlanViolation {
  enum class Kind {
    kEmpty,
    kUnknownDevice,
    kDeviceTwice,
    kShares,
    kSequenceParallel,
    kExchangeParts,
    kUnitUse,
    kBlocks,
    kMicroBatch,
    kBatchSum,
    kOrder,
    kOptimizerWeight,
    kRecompute,
    kHomedLayers,
    kWindow,
    kHome,
    kPostValidation,
    kMemory,
    kHostMemory
  };
  Kind kind;
  std::string detail;  // names the unit or route, the value and what is allowed
  UnitId unit = -1;    // of kMemory: that does not fit
};

// What a plan is held against, beside the job's shape.
struct PlanSite {
  std::map<std::string, DeviceRoom> room_by_device;  // of each that plans may name
  std::map<std::string, HostRoom> host_by_device;    // those that are missing have a host of unknown memory
};

// Every way in which `plan` breaks a rule; empty means valid. Shares no code with the planner but for the
// memory model.
std::vector<PlanViolation> CheckPlan(const Plan& plan, const TrainingShape& shape, const PlanSite& site);

// The same of what can be said without knowing the cluster: none of kUnknownDevice, kMemory and kHostMemory. Compiles
// nothing.
std::vector<PlanViolation> CheckPlanForm(const Plan& plan, const TrainingShape& shape);

}  // namespace medley
