#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "runtime/base/dtype.h"
#include "runtime/base/id.h"
#include "runtime/ir/model/model_config.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/model/recompute.h"
#include "runtime/ir/plan/unit_op.h"

// A plan is units and routes; everything else about an execution is derived from them.
namespace medley {

using UnitId = Id<struct UnitTag>;              // index into Plan::units
using Rank = Id<struct RankTag>;                // a device of a unit; ranks are numbered through the units
using MicroBatchId = Id<struct MicroBatchTag>;  // of a step, numbered through the routes
using StageId = Id<struct StageTag>;            // index into Route::units

// The order in which a unit runs the forwards and backwards of a step (runtime/ir/program/schedule.h).
enum class Schedule : uint8_t {
  kOneForwardOneBackward,  // Narayanan et al. 2021: few activations alive
  kGPipe,                  // Huang et al. 2019: all forwards, then all backwards
  kZeroBubbleH1,           // Qi et al. 2023: 1F1B, gradients of weights later than those of inputs
  // For routes that pass units more than once:
  kInterleaved1F1B,   // Narayanan et al. 2021: groups of micro-batches go through range after range
  kInterleavedGPipe,  // Zorse: all micro-batches go through a range before the unit's next one begins
  kZeroBubbleV,       // Qi et al. 2023, section 6: down the units and back up, one range each way
  kListed,            // as each unit's `order` says
};
constexpr int kSchedules = 7;
// Those that a planner chooses from; the others are run where a plan names them.
constexpr Schedule kPlannedSchedules[] = {Schedule::kOneForwardOneBackward, Schedule::kGPipe};
bool IsPlanned(Schedule schedule);

// Where the layers live of a unit with Unit::window_layers.
enum class LayersHome : uint8_t {
  kHost,  // parameters, gradients and the optimizer's state in the host's memory
  // With all of their holders, each of which keeps what it owns of the optimizer's state, and the gradients and the
  // parameters of that. Of their gradients alone (ZeRO-2), or of both (ZeRO-3, fully sharded; Rajbhandari et al.
  // 2020, sections 5.2 and 5.3).
  kGradientsOnPeers,
  kPeers,
};
constexpr int kLayersHomes = 3;
// Where what a forward keeps for its backward lives between the two.
enum class ActivationsHome : uint8_t {
  kDevice,
  kHost,  // but what is needed again too soon to save device memory
};

// What passes of a range of blocks are taken to need, in nanoseconds for each sequence of a micro-batch. The clock of a plan that lists
// orders: all units' passes and messages are placed in it, and each unit takes messages in, and gives buffers to what comes,
// in the order that this makes; so a step takes least where it is what devices really take. Nothing is started or awaited by it.
struct Pace {
  int64_t forward_nanoseconds = 1, input_gradient_nanoseconds = 1, weight_gradient_nanoseconds = 0;
  int64_t split_nanoseconds =
      0;  // of both gradients, what they take more than a backward whole; at most the weights'
  int64_t message_nanoseconds = 0;  // to the next stage, and from there back

  static constexpr int64_t kMost = 1'000'000'000'000;
  friend bool operator==(const Pace&, const Pace&) = default;
};

// Devices that together hold one or more contiguous ranges of the model's blocks.
struct Unit {
  absl::InlinedVector<std::string, 1> devices;  // its ranks, each "node/device" as the cluster names it
  // Ascending; two of them have blocks between them that it does not hold.
  absl::InlinedVector<BlockRange, 1> chunks;
  std::vector<ModelShare> shares;  // of the ranks; empty: EvenShares
  // What its ranks store activations and their gradients as. What crosses to another unit is stored as the
  // narrower of the two.
  Dtype activations = Dtype::kF32;
  Recompute recompute = Recompute::kNone;  // with it backward is one pass, whatever the schedule
  int recomputed_layers = 0;               // of how many of its layers, its last ones; 0: of all
  // Whether its ranks, at least two, cut the residual stream and the norms by rows, which are the tokens of a
  // micro-batch (RowsOfMember): sequence parallelism (Korthikanti et al. 2022, section 4.2.2). Otherwise each
  // of them has all rows.
  bool sequence_parallel = false;
  // The passes of a step, if the plan's schedule is kListed; empty otherwise.
  UnitOrder order;
  // If the plan lists orders, of each chunk. None, here or on another unit that its routes meet: blocks and sequences take equally long,
  // and where units are passed more than once all of them compute equally long.
  absl::InlinedVector<Pace, 1> paces;
  // How much of the optimizer's state each of its ranks carries beside the other holders of the same
  // parameters, where the plan shards it: relative, 0 to kMostOptimizerWeight. What no other unit holds its
  // ranks carry whatever it is.
  int optimizer_weight = 1;
  // How many of its layers at a time have a window on each device, into which they are fetched, or gathered from
  // their holders, before they are used. 0: all live on its devices. Backward is one pass then, whatever the
  // schedule; under GPipe all micro-batches of a step pass a layer before the next one.
  int window_layers = 0;
  LayersHome layers_home = LayersHome::kHost;  // if there are windows

  // Whether the layers' gradients, or their parameters, have windows.
  bool has_windows() const { return window_layers > 0; }
  bool lives_on_host() const { return has_windows() && layers_home == LayersHome::kHost; }
  bool lives_on_peers() const { return has_windows() && layers_home != LayersHome::kHost; }
  bool parameters_have_windows() const {
    return has_windows() && layers_home != LayersHome::kGradientsOnPeers;
  }
  // In host memory, activations are stored behind a micro-batch's forward and fetched ahead of its backward, and
  // micro-batches pass layers one after another, under GPipe too.
  ActivationsHome activations_home = ActivationsHome::kDevice;
  // In host memory, of how many of its layers, its first ones, with what is before them: these are away the longest.
  // 0, or as many as it has: of all blocks.
  int homed_layers = 0;
  // Of all its blocks.
  void KeepActivationsOnDevice() {
    activations_home = ActivationsHome::kDevice;
    homed_layers = 0;
  }
  // In a plan with post-validation, how many forwards at most it makes ahead of the norms of all (GoingAhead). What it sends
  // of others waits for these, so that more are not always better. -1: as many as may.
  int forwards_ahead = -1;
  // Into how many parts its ranks, at least two, cut each micro-batch (PartRows, row_counts.h), so that they compute one while what
  // they sum of another is on its way: of whole sequences, or where there are more parts than these of rows of them, all of which
  // attention then waits for. Not in sequence parallelism.
  int exchange_parts = 1;
  friend bool operator==(const Unit&, const Unit&) = default;
};

// Micro-batches that visit the same chunks in the same order: one replica of the model. A route passes the
// chunk of the next unit that begins where the last one ended.
// Micro-batches, and the sequences in them, are numbered through the routes: route 0 takes the first ones of
// the global batch.
struct Route {
  // In the order of visiting; a unit comes as often as the route passes chunks of it.
  std::vector<UnitId> units;
  int micro_batches = 0;          // of each step
  int micro_batch_sequences = 0;  // in each of them
  friend bool operator==(const Route&, const Route&) = default;
};

constexpr int kMostOptimizerWeight = 1'000'000;

struct Plan {
  Schedule schedule = Schedule::kOneForwardOneBackward;
  // Whether the holders of the same parameters share the optimizer's state of them by the weights of their
  // units (ZeRO-1, Rajbhandari et al. 2020, section 5.1): each updates its share, and gives the others the
  // result. Otherwise each has the state of all that it holds, and updates all of it.
  bool shards_optimizer = false;
  // Whether units go ahead before the norms of all are known (post-validation of the optimizer, Qi et al. 2023, section
  // 4): a unit whose own gradients are complete updates its parameters as if none were clipped, and begins with the
  // next step's forwards. What the sum of norms does not bear out is made again from the parameters as they were, to
  // the bit. So steps stand staggered along a pipeline, each unit with its own update between them. All parameters,
  // activations and the optimizer's state of all units live on their devices then, and are not sharded.
  bool post_validation = false;
  std::vector<Unit> units;
  std::vector<Route> routes;  // any of them may visit a unit
  friend bool operator==(const Plan&, const Plan&) = default;
};

// A chunk as one route passes it: a pipeline stage.
struct Visit {
  int route = -1;
  StageId stage;
  int stages = 0;         // of the route
  int chunk = -1;         // index into Unit::chunks
  UnitId previous, next;  // units of the stages beside it; -1: it is the first, the last
  MicroBatchId first_micro_batch = 0;
  int micro_batches = 0;
  int micro_batch_sequences = 0;
  int first_sequence = 0;  // of the global batch, in the first micro-batch

  bool first() const { return stage == 0; }
  bool last() const { return stage == stages - 1; }
};
using Visits = absl::InlinedVector<Visit, 1>;

// Whether each unit has windows for all of its layers.
bool HasWindowsForAllLayers(const Plan& plan, const ModelConfig& config);

// Whether no unit of a valid plan is on two routes, or twice on one.
bool PassesEachUnitOnce(const Plan& plan);

// The chunk of `unit` that begins with `first_block`, by which a route goes on; -1: there is none.
int ChunkFrom(const Unit& unit, BlockId first_block);

// How the routes of a valid plan pass `unit`, by route and then by stage.
Visits VisitsOf(const Plan& plan, UnitId unit);

// A device of a plan: the `member`-th of `unit`.
struct RankPlace {
  UnitId unit;
  int member = 0;
};
int RankCount(const Plan& plan);
Rank FirstRankOf(const Plan& plan, UnitId unit);
// Of each of some units, which ascend.
std::vector<Rank> FirstRanksOf(const Plan& plan, const std::vector<UnitId>& units);
// Those of a unit, ascending.
std::vector<int> RanksOf(const Plan& plan, UnitId unit);
RankPlace PlaceOf(const Plan& plan, Rank rank);
const std::string& DeviceOf(const Plan& plan, Rank rank);
// The devices of all ranks, in their order.
std::vector<std::string> DevicesOf(const Plan& plan);

// What each rank of a unit has of the width of its blocks.
std::vector<ModelShare> SharesOf(const Unit& unit, const ModelConfig& config);
// Whether ranks of a unit share key-value heads, whose parameters each of them has (model_share.h).
bool ShareKeys(const Unit& unit, const ModelConfig& config);
// What `rank` of a valid plan has of the width of the unit's blocks.
ModelShare ShareOf(const Plan& plan, Rank rank, const ModelConfig& config);

bool Holds(const Unit& unit, BlockId block);
int LayersOf(const Unit& unit, const ModelConfig& config);

// Units that hold `segment` (runtime/ir/model/parameters.h), ascending.
std::vector<UnitId> HoldersOf(const Plan& plan, const ModelConfig& config, SegmentId segment);

// Of all routes in a step, which is the global batch of a valid plan.
int SequencesOf(const Plan& plan);
// The sequences in a micro-batch of each size that the routes have, ascending.
std::vector<int> MicroBatchSizesOf(const Plan& plan);
// Those, and the sequences in the parts into which units cut them.
std::vector<int> PassSizesOf(const Plan& plan);

// "2 routes, micro-batch 4, 1F1B: [a/cpu0 blocks 0-3 -> b/cpu0 blocks 4-7] x 6 | [c/cpu0+c/cpu1 blocks 0-7] x
// 2"; where routes differ in their micro-batch size, "... micro-batches 1, 4 ...] x 6 of 4 | ...] x 8 of 1";
// where the optimizer's state is sharded, "... 1F1B, optimizer sharded 3:1:0: [...", by units, or "evenly"; where units go
// ahead of norms, "... post-validation: [...". Of a unit it
// also says what is not the usual: "[c/cpu0+c/cpu1 in shares of 3:1 heads, 20:12 columns sequence parallel
// blocks 0-7 in bf16 recomputing layers]", "[c/cpu0+c/cpu1 in 2 parts blocks 0-7]".
std::string Describe(const Plan& plan);
// "1f1b", "gpipe", "zb-h1", "interleaved-1f1b", "interleaved-gpipe", "zb-v", "listed"
std::string NameOf(Schedule schedule);

}  // namespace medley
