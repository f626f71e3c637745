#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <unordered_map>
#include <vector>

#include "coordinator/planner/reduction_floor.h"
#include "coordinator/planner/techniques/memory_saving.h"
#include "coordinator/planner/techniques/sharing.h"
#include "coordinator/planner/techniques/stage_buffers.h"
#include "coordinator/predictor/cost_model.h"
#include "coordinator/predictor/reductions.h"
#include "runtime/ir/program/program.h"

namespace medley {

// What the search asks about a problem many times. Devices that can change places without changing any
// prediction are one *class*; a list of devices is told by their classes. Sizes are indices into
// micro_batch_sizes.
//
// Where devices stand for units of several (UnitProblem), `ranks` says what each rank has.
//
// Where `saving` has units recompute, a stage recomputes what takes the least time of what fits, of as few layers as
// do, so that it is no choice of its own: nothing else that a plan does depends on it.
//
// Keeps references to `problem` (valid: CheckProblem) and `reductions`, which must outlive it.
class SearchTables {
 public:
  // What a rank of a unit has of the width, and the room for it.
  struct UnitRank {
    ModelShare share;
    DeviceRoom room;
    friend bool operator==(const UnitRank&, const UnitRank&) = default;
  };
  using UnitRanks = std::vector<std::vector<UnitRank>>;  // parallel to the problem's devices; or empty

  SearchTables(const PlanningProblem& problem, Reductions& reductions, UnitRanks ranks = {},
               MemorySaving saving = {});

  const PlanningProblem& problem() const { return problem_; }
  Reductions& reductions() const { return reductions_; }
  const ReductionFloor& reduction_floor() const { return reduction_floor_; }
  const MemorySaving& saving() const { return saving_; }
  int blocks() const { return blocks_; }
  bool Divides(int size) const { return DividesBatch(problem_, problem_.micro_batch_sizes[size]); }
  int MicroBatches(int size) const {
    return problem_.shape.global_batch_sequences / problem_.micro_batch_sizes[size];
  }
  const std::vector<std::vector<int>>& classes() const { return classes_; }  // devices of each, ascending
  const DeviceCost& Cost(int device_class) const { return problem_.devices[classes_[device_class].front()]; }

  double ForwardSeconds(int device_class, int size, BlockRange blocks) const;
  double BackwardSeconds(int device_class, int size, BlockRange blocks) const;
  // What recomputing adds to that.
  double RecomputeSeconds(int device_class, int size, BlockRange blocks, const UnitSaving& saving) const;
  // Seconds from a replicated stage's last backward to the end of its reductions, the tied embedding's apart,
  // at least, whatever it recomputes: what the blocks up to any one add to is summed after that one's
  // backward.
  double ReducedAfterSeconds(int device_class, int size, BlockRange blocks) const {
    return reduced_after_[device_class][size][At(blocks)];
  }
  // The same where the optimizer's state is shared, of the halves of the sums that scatter them; and by what those that
  // gather the parameters, from the step's begin on, delay a first stage's first forward at least.
  double ScatteredAndGatheredSeconds(int device_class, int size, BlockRange blocks) const {
    return scattered_and_gathered_[device_class][size][At(blocks)];
  }
  // The seconds of one activation or gradient from a device of `from` to another of `to`.
  double MessageSeconds(int from, int to, int size) const { return message_seconds_[from][to][size]; }

  // Parameters of `blocks`, and without the tied embedding.
  int64_t Parameters(BlockRange blocks) const;
  int64_t UntiedParameters(BlockRange blocks) const {
    return untied_before_[blocks.end] - untied_before_[blocks.first];
  }
  int64_t TiedParameters() const { return tied_; }
  // As gradients travel.
  double WireBytes(int64_t parameters) const {
    return problem_.wire_bytes_per_element * static_cast<double>(parameters);
  }

  // The slices that CutIntoBuckets makes of segments [first_segment, end_segment), in their order.
  struct Bucket {
    SegmentId first_segment = 0;
    int64_t parameters = 0;
  };
  const std::vector<Bucket>& Buckets(SegmentId first_segment, SegmentId end_segment) const {
    return buckets_[first_segment * (segments_ + 1) + end_segment];
  }
  // Those with parameters, from the last to the first.
  const std::vector<SegmentId>& FilledSegments() const { return filled_segments_; }

  // What no other unit of the plan can carry for a stage of the optimizer's state.
  enum class OwnOptimizer : uint8_t { kAll, kAllButTied, kNone };
  int64_t OwnParameters(BlockRange blocks, OwnOptimizer own) const {
    return own == OwnOptimizer::kAll          ? Parameters(blocks)
           : own == OwnOptimizer::kAllButTied ? UntiedParameters(blocks)
                                              : 0;
  }

  // A stage by what its memory depends on.
  struct Stage {
    int device_class = 0;
    int size = 0;
    Schedule schedule = Schedule::kOneForwardOneBackward;
    bool first = false;  // of its route
    int from_end = 1;    // 1: the last of its route
    int micro_batches = 1;
    Dtype activations = Dtype::kF32;
    Dtype narrowest = Dtype::kF32;  // of them and its neighbours'
    Dtype before = Dtype::kF32;     // of them and those of the stage before
    OwnOptimizer optimizer = OwnOptimizer::kAll;
  };
  // Of each range of blocks, at [first * (blocks() + 1) + end].
  struct StageNeeds {
    // Of the memory model. Of a unit of several devices: beyond what there is for them, of the rank that
    // lacks most.
    std::vector<int64_t> bytes;
    // What is recomputed that takes the least time of what fits, `bytes` being those with all layers; if nothing fits,
    // with which they are least.
    std::vector<UnitSaving> saving;
    // With each, of all layers, and of how few it may be for the range to fit, 0: of all, or it does not fit; empty
    // unless some may be recomputed. Of ranges without a layer only that with nothing.
    std::array<std::vector<int64_t>, kRecomputes> bytes_by_recompute;
    std::array<std::vector<int>, kRecomputes> fewest_layers;
    // With layers in host memory, with all of the optimizer's state whatever the stage says: what fits, with each
    // that is recomputed; the fewest windows, and as many as fit, and of as few layers as fit with these and the state that
    // the stage says. None that takes no less time with as many windows as one before, where that is all of it or
    // nothing is recomputed. None where all fits as it is. Empty unless layers may live there.
    std::vector<std::vector<UnitSaving>> with_windows;
    // With the fewest windows and what is recomputed with which that is least; kNever: its layers cannot live there.
    std::vector<int64_t> window_bytes;

    void Copy(int from, int to);  // places
  };
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  const StageNeeds& NeedsOf(const Stage& stage);
  // Bytes that a device leaves to the memory model, at the same places. Of a unit of several devices: nothing.
  const std::vector<int64_t>& AvailableBytes(int device_class) const { return available_[device_class]; }
  // Of host memory, of a unit whose layers live there with all of their optimizer's state.
  Bytes HomeBytesOf(int device_class, BlockRange blocks) const;
  int At(BlockRange blocks) const { return blocks.first * (blocks_ + 1) + blocks.end; }

 private:
  void FindClasses();
  BufferCounts BuffersOf(const Stage& stage, Recompute recompute, int windows);
  void TabulateMessages();
  void TabulateSegments();
  enum class Reduced : uint8_t { kWhole, kScatteredAndGathered };
  std::vector<double> ReducedAfter(int device_class, int size, Reduced reduced) const;
  bool Interchangeable(int a, int b) const;
  void AddNeeds(const Stage& stage, BlockRange blocks, const std::vector<BufferCounts>& buffers,
                StageNeeds& needs) const;
  // `buffers`: with windows, by what is recomputed; `as_it_is`: without, and with nothing recomputed.
  void AddWindows(const Stage& stage, BlockRange blocks, std::vector<BufferCounts> buffers,
                  const BufferCounts& as_it_is, StageNeeds& needs) const;
  // Of how few of the range's layers `buffers`' may be recomputed for it to fit; 0: of all.
  int FewestLayers(const Stage& stage, BlockRange blocks, BufferCounts buffers) const;
  int64_t NeededBytes(const Stage& stage, BlockRange blocks, const BufferCounts& buffers) const;
  bool HostMayBind(int device) const;

  const PlanningProblem& problem_;
  Reductions& reductions_;
  const UnitRanks ranks_;
  const MemorySaving saving_;
  const ReductionFloor reduction_floor_;
  const int blocks_, segments_;
  int64_t tied_ = 0;
  std::vector<std::vector<Bucket>> buckets_;  // [first segment * (segments_ + 1) + end segment]
  std::vector<SegmentId> filled_segments_;
  std::vector<std::vector<int>> classes_;
  std::vector<int64_t> untied_before_;
  // [device class][size][blocks before]
  std::vector<std::vector<std::vector<double>>> forward_before_, backward_before_;
  std::vector<std::vector<std::vector<double>>> message_seconds_;  // [device class][device class][size]
  // [device class][size][At(blocks)]
  std::vector<std::vector<std::vector<double>>> reduced_after_, scattered_and_gathered_;
  std::vector<std::vector<std::array<double, kRecomputes>>>
      recompute_seconds_;  // [device class][size], a layer
  std::vector<std::vector<int64_t>> available_;
  StageBuffers buffers_;
  std::map<std::array<int, 17>, StageNeeds> needs_by_buffers_;
  std::unordered_map<int64_t, const StageNeeds*> needs_by_stage_;
};

}  // namespace medley
