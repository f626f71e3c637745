#pragma once
#include <optional>
#include <string>
#include <vector>

#include "coordinator/problem/plan_report.h"
#include "runtime/ir/cluster/cluster.h"
#include "runtime/ir/cluster/device_profile.h"
#include "runtime/ir/job/training_spec.h"
#include "runtime/ir/plan/plan.h"

namespace medley {

// Says in `report`, whose devices are of `cluster`, which of them are emulated or compute a bf16 or f16 job in f32,
// and what the profiles are from that the prediction of `plan` for `training` was made of, of each kind, and of each
// share of the blocks' width that the plan gives a device of it, the newest one: with the spread and the doubts of the
// times that it has, and what running jobs changed of TimesUsed; and what the least sure of those of devices in use rests on. Pure.
void AddProvenance(const TrainingSpec& training, const Cluster& cluster, const Plan& plan,
                   PlanReport& report);

// From which profile times of a class of a device kind are, and what they are multiplied by.
struct TimesUse {
  std::string device_kind;
  TimeClass times = TimeClass::kPasses;
  std::string shape;               // of the profile
  double measured_at_seconds = 0;  // likewise
  double factor = 1;
  // Of these times themselves; none: nothing was taught, or the factor of recomputations is that of passes.
  std::optional<ProfileCorrection> correction;
  friend bool operator==(const TimesUse&, const TimesUse&) = default;
};
// All that planning `training` with whole blocks uses of measured times. Pure.
std::vector<TimesUse> TimesUsed(const TrainingSpec& training, const Cluster& cluster);

}  // namespace medley
