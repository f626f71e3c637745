#pragma once
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "comm/group/run_in_group.h"
#include "comm/staging/device_stream.h"
#include "comm/staging/pinned_mirror.h"
#include "comm/staging/staging_terms.h"
#include "comm/transport/transport.h"
#include "runtime/device/device_group.h"
#include "runtime/engine/shard/model_shard.h"
#include "runtime/ir/collective/collective_schedule.h"
#include "runtime/ir/collective/group_way.h"
#include "runtime/ir/collective/wire_type.h"
#include "runtime/ir/job/reduction_choice.h"
#include "runtime/ir/job/training_spec.h"
#include "runtime/ir/program/program.h"

namespace medley {

// What a rank exchanges with the others in a step: what crosses the boundaries of its blocks, the sums of
// gradients, and parameters that others have updated. Device memory goes the way that comm/staging finds for
// it, and is summed the way that comm/group finds for its holders, beside the device's computing.
//
// Each stream of the program has its own line of messages: Transfer, and Reduce and GatherParameters, may be
// called from as many threads as the program has streams, one for each.
class StepExchange {
 public:
  // `reductions` have been checked against the plan; slices without one: an even ring. `units`: the ranks of each unit
  // of several devices, ascending, in the plan's order; `nodes`: that of each rank. What is referred to outlives the exchange.
  StepExchange(const StepProgram& program, const std::vector<ReductionChoice>& reductions,
               std::vector<std::vector<int>> units, std::vector<std::string> nodes,
               const CommunicationSettings& settings, ModelShard& shard, Transport& transport);

  // Measures this rank's memory where that matters, learns how the others handle theirs, and brings devices together
  // that can sum among themselves. All ranks call it before anything else; only the first call does something. `tell`
  // (may be null) is told which way goes what this rank's unit exchanges within passes, and the gradients that it
  // sums with others, and why. Errors: of the transport; InvalidArgument: the job asks for a way that this rank's
  // memory does not have.
  absl::Status Open(const std::function<void(const std::string&)>& tell, absl::Time deadline);

  // Of the ranks of this one's unit, once: by which they exchange within passes. Null: through the host.
  std::unique_ptr<DeviceGroup> TakeUnitGroup() { return std::move(unit_group_); }

  // Waits for copies under way: the lane goes before the memory that it copies.
  ~StepExchange() { lanes_ = {}; }

  // A send or a receive of a buffer that may be used once the device has reached `after` (empty: at once).
  // Blocks until a buffer that was sent may be used again, or all of a message has come: it is there when the
  // arrival says so. `when_ready` as in DeviceMessage.
  absl::StatusOr<MessageArrival> Transfer(const Instruction& instruction, std::optional<Fence> after,
                                          const std::function<void()>& when_ready, absl::Time deadline);

  // The gradients that the device has when it reaches `after`, or the host has, of the instruction's slice, become their
  // sums over its holders, where the slice has shares those that this rank owns, and the others are of no use;
  // they, and those of slices before, are on the device when the arrival says so. Those of a layer that lives with its
  // holders are in its window before, and where the arena keeps them afterwards. `when_ready`: the device has them ready.
  absl::StatusOr<MessageArrival> Reduce(const Instruction& instruction, std::optional<Fence> after,
                                        const std::function<void()>& when_ready, absl::Time deadline) {
    return Collect(instruction, Part::kGradient, after, when_ready, deadline);
  }

  // The parameters of a slice with shares become those that their owners' devices have when they reach
  // `after`: the same bits at all holders; they, and those gathered before, are on the device when the arrival says so.
  // Those of a layer that lives with its holders come into its window, which the device uses no more when it has reached
  // `after`, from where the arenas keep them, and theirs alone are then there.
  absl::StatusOr<MessageArrival> GatherParameters(const Instruction& instruction, std::optional<Fence> after,
                                                  const std::function<void()>& when_ready,
                                                  absl::Time deadline) {
    return Collect(instruction, Part::kParameter, after, when_ready, deadline);
  }

 private:
  using Part = ParameterArena::Part;
  // Slices of one bucket that are parts of it share its mirror: it is filled for the first one and copied back
  // after the last one. Layers of one window have one mirror.
  struct Bucket {
    std::shared_ptr<PinnedMirror> mirror;
    int first_slice = 0, last_slice = 0;
    int64_t first_element = 0;  // of the bucket's segments that the mirror has
  };
  // Memory that is to have a mirror, for the buckets that share it.
  struct Mirrored {
    Slice memory;
    Stream stream;
    std::vector<Bucket*> buckets;
  };
  // What the hosts do with one part of the arena: parallel to the program's slices.
  struct Collectives {
    std::vector<CollectiveSchedule> schedules;     // of this rank's steps alone
    std::vector<std::shared_ptr<Bucket>> buckets;  // null with a group
    WireType wire = WireType::kF32;
    // When all so far, but of windows, that was copied to the device is there: copies come one after another, and what
    // follows the last slice, which may not be copied, follows all.
    MessageArrival all_there;
  };
  bool IsPart(int slice) const { return !program_.slices[slice].runs.empty(); }
  bool SumsOnHosts(int slice) const { return IsPart(slice) || program_.slices[slice].sums_on_hosts; }
  // By the group of the slice's holders, or on the hosts.
  absl::StatusOr<MessageArrival> Collect(const Instruction& instruction, Part part,
                                         std::optional<Fence> after, const std::function<void()>& when_ready,
                                         absl::Time deadline);
  // Runs the schedule of the instruction's slice over its bucket.
  absl::StatusOr<MessageArrival> RunOnHosts(const Instruction& instruction, Part part,
                                            std::optional<Fence> after,
                                            const std::function<void()>& when_ready, absl::Time deadline);
  // Runs that of a part of a bucket, by way of values that lie side by side: the rank's own if it `counts`, otherwise
  // zeros.
  absl::Status RunPart(const Instruction& instruction, Collectives& collectives, bool counts,
                       absl::Time deadline);
  // Whether what the instruction gathers or scatters is a layer's window.
  static bool IsOfWindow(const Instruction& instruction) {
    return instruction.operands.front().buffer.index >= 0;
  }
  Collectives& CollectivesOf(Part part) { return part == Part::kGradient ? sums_ : gathers_; }
  // The stream of the collectives of the slice's part.
  Stream StreamOf(Part part, int slice) const;
  uint16_t ChannelOf(int slice) const;
  // Gives the holders of each slice that are to have one their group.
  absl::Status OpenGroups(const EndMemory& memory, const std::function<void(const std::string&)>& tell,
                          absl::Time deadline);
  // FailedPrecondition: a holder of a slice that is shared is of a version that has it in another order.
  absl::Status CheckSliceOrders(absl::Span<const GroupFacts> facts) const;
  int NumberIn(const GroupWayQuestion& question) const;
  // This rank's way with `question`, and its group if that is a library's.
  absl::StatusOr<std::unique_ptr<DeviceGroup>> OpenGroup(GroupWayQuestion question,
                                                         const std::function<void(const std::string&)>& tell,
                                                         absl::Time deadline);
  // Finds the buckets of `part` that hosts work on, and adds to `mirrored` what is to have pinned copies.
  void FindBuckets(Part part, std::vector<Mirrored>& mirrored);
  // Their copies, and lanes, if the host has memory for all of them; where it reaches the device's memory, that is it.
  absl::Status OpenMirrors(const std::vector<Mirrored>& mirrored, bool host_reaches);
  Slice MemoryOf(Part part, int slice) const;
  // From the first element on of its segments to the last one that slices of the bucket that begins with `slice` have; which
  // the first one is.
  Slice MirroredOf(Part part, int slice, int64_t& first_element) const;
  // What a group of the slice's holders does with it.
  GroupExchangeOf ExchangeOf(Part part, int slice) const;
  // Null: its gradients are summed on the hosts.
  DeviceGroup* GroupOf(int slice) const;

  const StepProgram& program_;
  const std::vector<std::vector<int>> units_;
  const std::vector<std::string> nodes_;  // by rank
  const CommunicationSettings settings_;
  ModelShard& shard_;
  Transport& transport_;
  bool open_ = false;
  std::array<std::unique_ptr<DeviceStream>, kStreams> streams_;  // of those with messages
  std::unique_ptr<DeviceGroup> unit_group_;                      // until it is taken
  // By holders; null: they sum on the hosts.
  std::map<std::vector<int>, std::unique_ptr<DeviceGroup>> groups_;
  // Of each stream with collectives; null where the host reaches the device's memory, or does nothing with it.
  std::array<std::unique_ptr<CopyLane>, kStreams> lanes_;
  Collectives sums_, gathers_;             // of gradients; of parameters: empty if no slice has shares
  std::vector<std::vector<int>> members_;  // parallel to the program's slices: the holders
  std::array<std::vector<float>, kStreams> part_values_;
};

}  // namespace medley
