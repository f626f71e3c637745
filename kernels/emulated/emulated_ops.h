#pragma once
#include <map>
#include <utility>
#include <vector>

#include "kernels/arguments/op_arguments.h"
#include "kernels/emulated/emulated_queue.h"
#include "kernels/emulated/emulation_profile.h"
#include "kernels/emulated/op_cost.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/uniform_ops.h"

namespace medley {

// Ops that take their roofline's time, times a factor where one is set, and leave all memory as it is.
// Arguments are checked as by every backend. One thread at a time.
class EmulatedOps final : public UniformOps<EmulatedOps> {
 public:
  // `queue` outlives it.
  EmulatedOps(EmulatedQueue& queue, EmulationProfile profile) : queue_(queue), profile_(std::move(profile)) {}

  template <typename Args>
  absl::Status Submit(const Args& args) {
    RETURN_IF_ERROR(CheckTypedArguments(args));
    queue_.Take(SecondsOf(CostOf(args)));
    return absl::OkStatus();
  }

  double SecondsOf(const OpCost& cost) const {
    const auto factor = factors_.find(cost);
    return RooflineSeconds(profile_, cost) * (factor == factors_.end() ? 1.0 : factor->second);
  }

  // Ops of this cost take `factor` (more than 0) times their roofline's time from now on.
  void SetFactor(const OpCost& cost, double factor) { factors_[cost] = factor; }
  bool HasFactor(const OpCost& cost) const { return factors_.contains(cost); }

  const EmulationProfile& profile() const { return profile_; }

  void ParametersChanged() override {}

 private:
  EmulatedQueue& queue_;
  const EmulationProfile profile_;
  std::map<OpCost, double> factors_;
};

// Ops that note what they were asked, in order, and do nothing.
class CostRecorder final : public UniformOps<CostRecorder> {
 public:
  template <typename Args>
  absl::Status Submit(const Args& args) {
    RETURN_IF_ERROR(CheckTypedArguments(args));
    costs_.push_back(CostOf(args));
    return absl::OkStatus();
  }
  // Those since the last call.
  std::vector<OpCost> Take() { return std::exchange(costs_, {}); }

  void ParametersChanged() override {}

 private:
  std::vector<OpCost> costs_;
};

}  // namespace medley
