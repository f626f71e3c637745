#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "comm/reshard/piece.h"
#include "comm/reshard/reshard_plan.h"
#include "comm/transport/transport.h"

namespace medley {

// One rank's part in a ReshardPlan, under way: sends and receives of pieces of its slice, packed into scratch
// memory where they do not lie in one piece, and what it passes on to its neighbours. It has no thread:
// Progress and Wait drive it, and a receiver that does neither keeps its neighbours waiting. Used by one
// thread at a time.
class Reshard {
 public:
  struct Options {
    // Tells concurrent re-shardings between the same ranks apart, within the limits of MessageTag.
    uint16_t channel = 0;
    uint32_t sequence = 0;
    size_t scratch_bytes = 8 << 20;  // for packed pieces; never less than one message's
  };
  // Starts the part of transport's rank, which all ranks of the plan must do. `source` is this rank's slice
  // if it is a sender, `target` is its slice if it is a receiver, else empty; both in host memory, of exactly
  // rows x columns x element_bytes, and alive until the Reshard is destroyed. `plan` and `transport` must
  // outlive it. InvalidArgument: source or target has another size, or the transport refuses the tag; names
  // it. Others: as of Wait.
  static absl::StatusOr<std::unique_ptr<Reshard>> Start(Transport& transport, const ReshardPlan& plan,
                                                        const Options& options,
                                                        absl::Span<const std::byte> source,
                                                        absl::Span<std::byte> target);
  // Cancels what is not done, as Transfer's destructor does.
  ~Reshard();

  // Does what can be done without blocking. True once all is done: `source` may change, and `target` is
  // complete. Errors as of Wait, save DeadlineExceeded; repeats the first one.
  absl::StatusOr<bool> Progress();
  // Blocks until all is done.
  //   DeadlineExceeded   not done at `deadline`; names the message that it waits for, and how much is done.
  //                      It goes on.
  //   others             as of Transfer::Wait, with the message's place in the plan. `target` is then
  //                      undefined.
  // With several messages under way it looks at the oldest and, every half millisecond, at the others.
  absl::Status Wait(absl::Time deadline);

 private:
  struct Step;  // a message of which this rank is one end
  Reshard(Transport& transport, const ReshardPlan& plan, const Options& options,
          absl::Span<const std::byte> source, absl::Span<std::byte> target);
  void MakeSteps();
  absl::Status Advance();
  // Start what can be started.
  absl::Status StartReceives();
  absl::Status StartSends();
  // Finishes what is done.
  absl::Status Collect();
  absl::Status Finish(Step& step);
  // Memory for the step's bytes: in the slice itself, or scratch. False: there is no scratch for now.
  bool PlaceBytes(Step& step);
  void FreeScratch(Step& step);
  std::string Describe(const Step& step) const;

  Transport& transport_;
  const ReshardPlan& plan_;
  const Options options_;
  const absl::Span<const std::byte> source_;
  const absl::Span<std::byte> target_;
  std::vector<std::unique_ptr<Step>> steps_;  // in the plan's order
  std::vector<Step*> under_way_;              // those with a transfer
  std::vector<Step*> receives_, sends_;       // the same, apart
  size_t next_receive_ = 0, next_send_ = 0;   // the first that has not started
  size_t first_open_ = 0;                     // in steps_: all before are done
  size_t scratch_used_bytes_ = 0;
  int64_t done_bytes_ = 0, all_bytes_ = 0;
  absl::Status failure_;
};

}  // namespace medley
