#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "comm/collective/step_progress.h"
#include "comm/transport/transport.h"
#include "runtime/ir/collective/wire_type.h"

namespace medley {

// What all streams of one collective share.
struct StreamContext {
  Transport& transport;
  absl::Span<const CollectiveStep> steps;
  StepProgress& progress;
  uint16_t channel = 0;
  WireType wire = WireType::kF32;
  absl::Span<float> values;
  const std::vector<bool>& shares_memory;  // by place: Transport::SharesMemory
};

// The messages between this member and another, one way, in their order: some chunks of them are under way,
// the oldest is seen to first. Private to RunCollective.
class MessageStream {
 public:
  // `steps`: places in context.steps; all send, or all receive. `context` must outlive this.
  MessageStream(const StreamContext& context, int rank, std::vector<int> steps);

  // Takes up the oldest chunk, if it is done. Whether it was. Does not block.
  absl::StatusOr<bool> Land(absl::Time deadline);
  // Starts all chunks that can be started. Whether there were any. Does not block.
  absl::StatusOr<bool> LaunchAll();

  bool Finished() const { return flying_ == 0 && next_step_ == steps_.size(); }
  // The oldest chunk is under way and not done; then OldestStep is its step, and AwaitOldest waits for it.
  bool Waits() { return flying_ > 0 && !Oldest().transfer->Done(); }
  bool sends() const { return sends_; }
  int OldestStep() const { return flights_[oldest_].step; }
  // OK at `until` as well. At the deadline, and for its own errors, with peer, step and bytes done.
  // After a wait of a millisecond, of a slow link, more is under way.
  absl::Status AwaitOldest(absl::Time until, absl::Time deadline);

 private:
  struct Flight {
    std::unique_ptr<Transfer> transfer;
    int step = 0;
    ElementRange range;
    std::byte* scratch = nullptr;  // null: in place
  };
  Flight& Oldest() { return flights_[oldest_]; }
  bool NeedsScratch(const CollectiveStep& step) const;
  absl::StatusOr<bool> Launch();  // the next chunk, if it can
  absl::StatusOr<std::unique_ptr<Transfer>> Post(const Flight& flight, const CollectiveStep& step);
  void Take(const Flight& flight);
  absl::Status Describe(const absl::Status& status, int step) const;

  const StreamContext& context_;
  const int rank_;
  const std::vector<int> steps_;
  const bool sends_;
  size_t next_step_ = 0;    // of steps_; what is launched next
  int64_t next_chunk_ = 0;  // of it
  size_t slot_bytes_ = 0;
  std::unique_ptr<std::byte[]> scratch_;  // before the transfers that use it
  std::vector<std::byte*>
      free_slots_;               // of scratch; the last one used is used next, while it is in the caches
  std::vector<Flight> flights_;  // a ring
  size_t oldest_ = 0, flying_ = 0;
  size_t most_flying_;
};

}  // namespace medley
