#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "coordinator/planner/planner.h"
#include "runtime/ir/cluster/device_profile.h"
#include "runtime/ir/job/job_constraints.h"
#include "runtime/ir/link/message_protection.h"
#include "runtime/ir/plan/plan.h"

namespace medley {

// The profile of a device kind, as a prediction was made from it.
struct ProfileUse {
  std::string device_kind;
  std::string share;                // of the blocks' width, for people; empty: all of it
  double measured_at_seconds = 0;   // unix; 0: not known
  std::string provenance;           // on and with what, for people
  double spread = 0;                // ProfiledTimes::spread, the widest of its times
  std::vector<std::string> doubts;  // of its times, each a sentence
  // What running jobs changed of the times that are planned with, those of copies from the profile that these are of, for
  // people: "passes x 0.94 by job ..."; empty: nothing.
  std::string correction;
};

// A device that the job may use and that was not planned with.
struct LeftOutDevice {
  std::string device;  // "node/device"
  std::string why;     // for people: "blocks 0-3 need 4 GiB"
};

// One of the plans that differ in time and price.
struct ParetoPlan {
  Plan plan;
  std::map<std::string, int> devices_by_kind;  // that it uses
  double step_seconds = 0;
  double price_per_hour = 0;
  bool proven_optimal = false;  // of those that cost no more
  std::string bottleneck;
};

enum class PlanOrigin : uint8_t { kPlanner, kPinned };

// What is told of a plan beside itself and its prediction.
struct PlanReport {
  PlanOrigin origin = PlanOrigin::kPlanner;
  // As of ChosenPlan; nothing of a pinned plan.
  double lower_bound_seconds = 0;
  bool bound_under_1f1b_alone = false;
  bool proven_optimal = false;
  int64_t simulated_plans = 0;
  int64_t tokens_per_step = 0;
  int64_t steps = 0;  // of the job
  Objective objective = Objective::kThroughput;
  double price_per_hour = 0;  // of all devices in use; 0: free, or not known
  MessageProtection message_protection = MessageProtection::kNone;  // between hosts
  std::vector<ParetoPlan> pareto;  // from the fastest to the cheapest; empty: it was not asked for
  bool pareto_complete = false;    // ParetoList::complete
  Explanation explanation;
  bool compared = false;                       // whether explanation.rejected is filled in
  std::set<std::string> emulated;              // of the explanation's devices; they compute nothing
  std::set<std::string> computes_f32_instead;  // of those; the job says bf16 or f16
  std::vector<ProfileUse> profiles;            // one of each kind and share of the explanation's devices
  PredictionBasis basis = PredictionBasis::kMeasuredLayers;  // the least sure of the used devices' profiles
  std::vector<LeftOutDevice> left_out;
};

// Emulated devices that the plan uses: nothing that the job computes means anything if there are any.
std::vector<std::string> EmulatedInUse(const PlanReport& report);

}  // namespace medley
