#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/predictor/cost_model.h"
#include "coordinator/predictor/predict.h"
#include "runtime/base/stop_flag.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/plan/plan.h"
#include "runtime/ir/program/memory.h"

namespace medley {

struct SearchLimits {
  // Plans simulated at most; the best found so far is returned when they are used up.
  int64_t max_simulations = 200'000;
  // Instructions simulated at most: what simulations cost. All else that takes time counts in proportion.
  int64_t max_simulated_instructions = 30'000'000;
  // Ways to form routes of devices that are looked at at most. 8 devices that are all unlike have about
  // 840,000; beyond the limit the fastest devices in obvious forms (and what is near them) are what is
  // compared.
  int64_t max_device_lists = 1'000'000;
  // Looked at often, if it is not null: once it is true planning ends soon, with the best plan found so far as at
  // the other limits, or with Cancelled if there is none. Must not become false again while planning is under way.
  const std::atomic<bool>* stop = nullptr;

  bool stopped() const { return IsStopped(stop); }
  // A part of them, which is enough to compare plans with one.
  SearchLimits OfComparison() const {
    constexpr int kPart = 10;
    return {max_simulations / kPart, max_simulated_instructions / kPart, max_device_lists / kPart, stop};
  }
};

// Beyond so many devices plans are made by classes of devices (coordinator/planner/classes) alone: those of a class are no
// longer looked at one by one, and plans of other kinds are not compared.
constexpr size_t kMostSearchedDevices = 16;

struct ChosenPlan {
  Plan plan;
  double step_seconds = 0;  // predicted, as PredictStep has it
  // No valid plan with a named schedule and whole micro-batches is predicted to be faster than this, or none under 1F1B if
  // `bound_under_1f1b_alone`; where the plan chosen has an order of its own, no plan in any order. At least what all devices take that compute all the time (work_bound.h).
  double lower_bound_seconds = 0;
  // The constraints allow other schedules, too, of which the bound says nothing: it is that of planning by classes.
  bool bound_under_1f1b_alone = false;
  // The search was exhausted within its limits, and none that it did not look at because its replicas would share the optimizer's state
  // could be faster by a thousandth. Of plans with a synthesised order nothing is known: what is proven is proven of those with named schedules; nor of
  // units of several devices, so that it is false where shares of the width were measured; nor of one pipeline whose two ends share the state of a tied
  // embedding's optimizer.
  bool proven_optimal = false;
  int64_t simulated_plans = 0;
  // What the plan does to fit the memory, why, what that saves and costs, and how far it was searched, for people;
  // empty: it does nothing of the kind.
  std::string fitting;
  // What an order of the passes that was synthesised gains, or that none was chosen, for people; empty: they
  // are not allowed, or there is nothing to put in order.
  std::string orders;
};

// The valid plan with the least predicted step time: how many routes, which devices in which order, how many
// blocks each holds, the micro-batch size, how many micro-batches each route takes, and the schedule. A
// device may be left out. Units are numbered route by route in the order of the stages; of plans that are
// equally fast, one with the fewest devices is chosen, and of those the first in a fixed order.
//
// Where no plan fits with one device a unit, a way out is looked for (ways_out.h): the devices of each host
// are taken together in units that share the width of their blocks, by what has been measured of such shares;
// and, where the constraints allow it, units make activations again instead of keeping them, have their layers in
// host memory and share the optimizer's state. The fastest plan that is found of those; nothing is called proven
// of it. `fitting` says so, and what it brings that such units cut micro-batches into parts.
//
// Where constraints allow to save memory, replicas share the optimizer's state, or all that they have of layers, where that is predicted
// to be faster (chosen_sharding.h); `fitting` says so.
//
// Where one fits, and memory keeps others from fitting, plans of units of one device are looked for that do so, and the
// fastest is chosen if it is faster than all that was found without. `fitting` says so.
//
// Where constraints allow synthesised orders, the best pipelines that were found get one each (orders.h), and the
// best of these is chosen where it is predicted to be faster by more than half a per cent. `orders` says so.
//
// Where that search is not exhausted or finds nothing that fits, orders are allowed, or shares were measured, a plan by classes of devices
// is made, too, and chosen where it is predicted to be faster by more than half a per cent, or is the only one; `fitting` then says what
// it is. It alone has units with sequence parallelism, and units whose forwards keep in host memory what backwards need, where memory
// binds.
//
// Up to kMostSearchedDevices, or where devices share processors, exact (branch and bound over lower bounds of the simulation) unless the limits end it first; for up to 8
// devices it equals brute force on the problems of the tests. Deterministic: equal problems give equal plans.
// Pure.
//
// Errors:
//   InvalidArgument     no devices, no layers, a micro-batch size that does not divide the global batch,
//                       times that do not match the sizes, ...; names the field.
//   ResourceExhausted   no plan fits the devices' memory, with units of one device or of several whose shares have
//                       been measured; says how much the best attempt lacks, and where, and what it would
//                       need with each way to need less; where planning by classes is possible, also what
//                       would make room (classes/class_shortage.h). Where constraints limit devices and their
//                       price: names those.
//   DeadlineExceeded    another of the limits ended the search before a plan that fits was found, which there may be, and
//                       planning by classes has found none, either.
//   Cancelled           limits.stop was set before any plan was found.
absl::StatusOr<ChosenPlan> ChoosePlan(const PlanningProblem& problem, const SearchLimits& limits = {});

// A share that a device has to be measured with.
struct WantedShare {
  int device = 0;    // index into PlanningProblem::devices
  ModelShare share;  // AtOrigin
};

// Whether a plan fits the memory of the devices that were measured with whole blocks, one device a unit that
// recomputes nothing and has all of its optimizer's state. Once limits.stop is set: anything. Pure.
bool FitsWithoutSharing(const PlanningProblem& problem, const SearchLimits& limits = {});

// What has to be measured before ChoosePlan can share the width of blocks, if nothing fits without: nothing
// if nothing fits however it is shared, or if all is measured. Asks for even shares first, and when those are
// there for shares by speed; of 2, 3, ... devices a unit, up to the first number with which something fits,
// and where memory may be saved (PlanConstraints::saves_memory) up to the first with which it does without
// that. Where only what planning by classes knows may fit, and of more than kMostSearchedDevices, even shares alone, of one device of
// each class.
// `problem` may have devices without times and shares. Once limits.stop is set: anything. Pure.
std::vector<WantedShare> SharesToMeasure(const PlanningProblem& problem, const SearchLimits& limits = {});

// The best plan of one kind, to compare with.
enum class PlanKind {
  kSingleDevice,
  kEqualSplit,
  kPureDataParallel,
  kPurePipeline,
  kMoreTensorParallelism,
  kFewerStages,
  kShardedParameters,
};
std::string NameOf(PlanKind kind);
struct Alternative {
  PlanKind kind;
  absl::StatusOr<ChosenPlan>
      plan;  // ResourceExhausted if none of this kind fits and is allowed, or can be made; DeadlineExceeded if none was found
             // within the limits; says why
  std::string description;  // "all devices in one pipeline, blocks split evenly, micro-batch 4, 1f1b"
};

// One of each of the first four kinds, in their order.
//   kSingleDevice      everything on one device.
//   kEqualSplit        what a tool for equal devices does with all of them: one pipeline in the problem's
//                      order with blocks split as evenly as possible, or all data parallel with micro-batches
//                      as even as possible; the faster, over micro-batch sizes and schedules.
//   kPureDataParallel  two or more routes of one device each; uneven micro-batches.
//   kPurePipeline      one route of two or more devices; uneven blocks.
// Micro-batch sizes that do not divide the global batch, which are those of a pinned plan that mixes sizes,
// are passed over; so are devices that were not measured with whole blocks. Once limits.stop is set, a plan is the
// best that was found of its kind until then, or Cancelled. InvalidArgument as ChoosePlan.
absl::StatusOr<std::vector<Alternative>> BestOfEachKind(const PlanningProblem& problem,
                                                        const SearchLimits& limits = {});

// The equal split of many devices: of as many routes of 1, 2, 4, ... stages of units of 1, 2, 4, ... devices as there are devices for, in
// the problem's order, with blocks and micro-batches as even as possible (EvenGrid), the fastest that fits.
Alternative EvenSplitOfMany(const PlanningProblem& problem, const SearchLimits& limits = {});

// What differs from `plan` in one thing, in the order of PlanKind.
//   kMoreTensorParallelism  twice as many devices a unit (WithMoreTensorParallelism).
//   kFewerStages            the best plan whose routes have at most one stage less than its longest; none where that has one.
//   kShardedParameters      layers live with their holders (ZeRO-3): the faster of `plan` so (WithShardedParameters) and of a route for each
//                           device (FullyShardedReplicas) with micro-batches of any size, with even shares of the optimizer's state or by speed.
// Takes some simulations, and planning once.
std::vector<Alternative> NearbyPlans(const PlanningProblem& problem, const Plan& plan,
                                     const SearchLimits& limits = {});

struct Explanation {
  struct Device {
    std::string name, kind;
    double price_per_hour = 0;  // 0: free, or not known
    bool used = false;
    double busy_share = 0;  // of the step
    Bytes peak_memory, memory_limit;
    RankMemory memory;  // what the peak is made of, with what the ops hold and copy beside it
    // Of its workspace: what its unit's ranks tell each other, and the scalars that all ranks sum. Whatever a
    // communicator keeps to sum gradients is in no memory model.
    Bytes collectives;
    Bytes copies;       // of parameters, for products that multiply another type, or packed ones
    Bytes host_memory;  // of its host, for layers that live there (memory.host); 0: not known
    int blocks = 0;
    int micro_batches = 0;
  };
  double step_seconds = 0;
  std::string summary;     // one paragraph for people
  std::string bottleneck;  // what the step's length is owed to: a device, a link, or the reductions
  // How the largest sum of gradients is done, and what other ways would take; empty: none.
  std::string reductions;
  // What the ranks of the unit that takes longest over it sum and give each other within passes; empty: every
  // unit is one device.
  std::string exchanges;
  std::string fitting, orders;  // of ChosenPlan; not known of a plan alone
  std::string messages;         // how those between hosts are protected; empty: they are not
  double bubble_share = 0;      // device time of the used devices that is not computing
  std::vector<Device> devices;  // every device of the problem
  // Of all devices of a kind.
  struct Kind {
    std::string kind;
    int devices = 0, used = 0;
    double work_share = 0;    // of all that passes compute, by layers, sequences and width
    double busy_share = 0;    // of the step, of those used, on average
    double memory_share = 0;  // of the limit, of that which uses most
  };
  std::vector<Kind> kinds;  // in the order in which the devices have them
  struct Rejected {
    PlanKind kind;
    std::string description;
    double step_seconds = 0;
    std::string why_slower;
  };
  std::vector<Rejected> rejected;  // best plan of each other kind; step_seconds 0 if none fits
  // A change of the cluster that would make steps shorter.
  struct Help {
    std::string change;       // "twice the memory of A100", "twice the rate of links between north and south"
    double step_seconds = 0;  // then
    bool planned_anew = false;  // false: of the same plan
  };
  std::vector<Help> helps;  // what helps most first
  // What else might help, but was not tried, and why, for people; empty: nothing.
  std::string helps_not_tried;
};

// Why `plan` (chosen or pinned) is as fast as it is; `rejected` is left empty. Takes one simulation.
absl::StatusOr<Explanation> ExplainPlan(const PlanningProblem& problem, const Plan& plan);

// The same, why plans of other kinds and those next to it are not faster, and what would help. Of up to kMostSearchedDevices devices the
// best plans of other kinds are searched for; of more an even split is what there is of these. Takes several times what planning takes.
// Cancelled: limits.stop was set before all were found.
absl::StatusOr<Explanation> ExplainAndCompare(const PlanningProblem& problem, const Plan& plan,
                                              const SearchLimits& limits = {});

// For a terminal: the explanation as aligned text, lines of at most 110 columns, without what the memory of devices is made of.
std::string FormatExplanation(const Explanation& explanation);

}  // namespace medley
