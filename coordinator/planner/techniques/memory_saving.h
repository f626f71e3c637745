#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/predictor/cost_model.h"
#include "coordinator/predictor/predict.h"
#include "runtime/ir/model/recompute.h"
#include "runtime/ir/plan/plan.h"

// What makes a plan need less memory without another cut of the model: units make activations again instead
// of keeping them, their layers live in host memory, and holders of the same parameters share the optimizer's
// state of them. All compute the same, and cost time.
namespace medley {

// Which of them a search may take.
struct MemorySaving {
  bool recomputes = false;        // Unit::recompute
  bool shards_optimizer = false;  // Plan::shards_optimizer, by Unit::optimizer_weight
  bool homes_layers = false;      // Unit::window_layers
  bool any() const { return recomputes || shards_optimizer || homes_layers; }
};

// All of them, if the problem's constraints allow it; else none.
MemorySaving SavingOf(const PlanningProblem& problem);

// What a unit does to need less memory by itself.
struct UnitSaving {
  Recompute recompute = Recompute::kNone;
  int window_layers = 0;  // of layers in host memory
  ActivationsHome activations_home = ActivationsHome::kDevice;
  bool sequence_parallel = false;  // of units of several devices
  int recomputed_layers = 0;       // with `recompute`, of its last ones; 0: of all

  // How many of so many layers, the unit's last ones, are made again.
  int RecomputedOf(int layers) const {
    if (recompute == Recompute::kNone) return 0;
    return recomputed_layers > 0 ? std::min(layers, recomputed_layers) : layers;
  }
  void Set(Unit& unit) const;
  friend bool operator==(const UnitSaving&, const UnitSaving&) = default;
};

// Units whose layers live in host memory have at least so many windows, or there is no overlap; and fewer than
// layers, or nothing is saved.
constexpr int kFewestWindows = 2;

// What a unit may recompute, from what takes the least time to what takes the most. Each but the first needs
// less memory than the one before it where several micro-batches or layers are kept, and else may need a
// little more.
constexpr Recompute kRecomputesByTime[kRecomputes] = {Recompute::kNone, Recompute::kAllButAttention,
                                                      Recompute::kLayers};

constexpr int64_t kOptimizerBytes = 2 * 4;  // m and v of an element

// Bytes of host memory of `layers` layers that live there, of a device that has `share` of their width, if it has
// all of their optimizer's state.
Bytes HomeBytes(const ModelConfig& model, const ModelShare& share, int layers);

// "16.0 GiB", or where buffers have a limit "16.0 GiB, 4.0 GiB in one buffer".
std::string DescribeLimit(const DeviceRoom& room);

// Whether copies between host memory and the device have been measured.
inline bool CopiesAreMeasured(const DeviceCost& device) {
  return device.fetch_bytes_per_second > 0 && device.store_bytes_per_second > 0;
}

// Shares the optimizer's state of a plan, whichever of its units recompute what: evenly among the units that
// hold the same parameters, or by given weights, but that each has no more than its devices have room for, and the
// others what that leaves. One plan can ask for many such weights.
class OptimizerSharding {
 public:
  // `plan` is valid but for its memory, and `problem` outlives this.
  OptimizerSharding(const PlanningProblem& problem, Plan plan);

  // Whether units hold parameters that others hold, too: nothing can be shared otherwise.
  bool CanShard() const;

  // Says what Fit would compile the rank's program for: the bytes that its room leaves for the state of what
  // it holds with others, where its unit recomputes so. Negative: it does not fit without any of that.
  void KnowRoom(Rank rank, Recompute recompute, int64_t bytes);

  // The plan with its units saving so (parallel to them), of all of their layers, and weights with which all ranks fit their
  // devices, by the same memory model as every plan; none: there are no such weights. The weights are the
  // greatest that fit of those that are nowhere greater than `wanted`, each positive and parallel to the units, or, where it
  // is empty, than even ones; that of a unit with nothing to share is 1. Units whose layers live in host memory are taken to
  // fit with all of their state.
  std::optional<Plan> Fit(const std::vector<UnitSaving>& savings, const std::vector<int>& wanted = {});

 private:
  struct SharedSlice {
    int64_t elements = 0;
    std::vector<Rank> holders;
    size_t place = 0;  // of the rank among them
  };
  int64_t Room(Rank rank, Recompute recompute);
  int64_t Load(Rank rank, const std::vector<int>& weights) const;
  bool Exceeds(int unit, const std::vector<int>& weights, const std::vector<int64_t>& rooms) const;
  bool Carried(const std::vector<int>& weights) const;
  std::optional<std::vector<int>> Lowered(std::vector<int> weights, const std::vector<int64_t>& rooms) const;

  const PlanningProblem& problem_;
  Plan plan_;
  std::vector<int> unit_of_, first_rank_;         // by rank; by unit, and the number of ranks
  std::vector<std::vector<SharedSlice>> slices_;  // by rank
  double shared_elements_ = 0;                    // of all units together, each counted once
  std::vector<std::optional<int64_t>> rooms_;     // [rank * kRecomputes + recompute]: elements, see Room
};

// What a plan does to need less memory, for people, a sentence a technique: which devices, how much it saves
// where it saves most, and what it costs. Empty: it does nothing of the kind. `prediction` is of the plan.
std::vector<std::string> DescribeSaving(const PlanningProblem& problem, const Plan& plan,
                                        const StepPrediction& prediction);

}  // namespace medley
