#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/device/device_queue.h"
#include "runtime/device/ops.h"

namespace medley {

// A device among others of its kind whose memory a library of theirs sums, gathers and scatters, without the host. It
// has a line of its own beside the queue's, in order: joining the others first, then the exchanges.
//
// Nobody blocks on it, neither the host nor, unless it is told to, the queue: what a member that is gone leaves undone
// does not end by itself. So whoever submits looks until it is Done(), watches the other members meanwhile, and aborts.
// One thread at a time, which need not be the queue's. Must not outlive its queue; destroying it aborts what is under
// way.
class DeviceGroup {
 public:
  virtual ~DeviceGroup() = default;

  // Each submits one exchange of `values`, of an activation type, in a buffer of the queue that lives until this is
  // done or aborted. It begins when the queue has reached `after`. All members call the same in the same order, with
  // as many elements, of one type. FailedPrecondition: the library has not taken what was submitted before, as Done()
  // or HoldQueue() would have said. Others: as of Done().
  //
  // `values` become their sums over the members, the same bits at all of them; in a narrow type each addition may be
  // rounded.
  virtual absl::Status Sum(const Slice& values, Fence after) = 0;
  // Member m has the elements from ends[m - 1], or 0, to ends[m]; afterwards all have all.
  virtual absl::Status Gather(const Slice& values, absl::Span<const int64_t> ends, Fence after) = 0;
  // Member m has the sums of the elements from ends[m - 1], or 0, to ends[m] afterwards, added as for Sum(); its others
  // are undefined.
  virtual absl::Status Scatter(const Slice& values, absl::Span<const int64_t> ends, Fence after) = 0;

  // Has what the queue is given from now on begin when all that was submitted here is done. Does not block: false: the
  // library has yet to take it, ask again. Of the queue's submitting thread. Errors: as of Done().
  virtual absl::StatusOr<bool> HoldQueue() = 0;

  // Whether all that was submitted is done; then what the queue is given next finds what came of it. Does not block.
  // Errors: the library's or the driver's words, and Cancelled after Abort(); they stay.
  virtual absl::StatusOr<bool> Done() = 0;

  // Ends what is under way here; the values are then of no use. The other members are not told.
  virtual void Abort() = 0;
};

// A library that makes groups of one queue's device and others. One thread at a time.
class GroupLibrary {
 public:
  virtual ~GroupLibrary() = default;

  // With its version, "NCCL 2.28.3": the members of a group have the same.
  virtual std::string name() const = 0;
  // Unlike that of every other device of any machine: a group has a device once.
  virtual std::string device() const = 0;

  // Of a group to come, at most kMostIdBytes: one member makes it, all join by it. Errors: the library's
  // words, as for Join().
  static constexpr size_t kMostIdBytes = 192;
  virtual absl::StatusOr<std::string> MakeId() = 0;

  // Begins to join, as member `member` of `members`, counted from 0. Does not wait for the others: the group
  // is Done() when all are there.
  virtual absl::StatusOr<std::unique_ptr<DeviceGroup>> Join(const std::string& id, int member,
                                                            int members) = 0;
};

}  // namespace medley
