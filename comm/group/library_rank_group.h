#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "comm/transport/transport.h"
#include "runtime/base/mutex.h"
#include "runtime/device/device_group.h"
#include "runtime/device/device_queue.h"
#include "runtime/device/rank_group.h"

namespace medley {

// The ranks of a unit exchanging in their devices' memory by a library of theirs. Each exchange begins when the queue
// has come to it, and what the queue is given next begins when it is done: the host waits for neither, only, for
// moments, for the library to take it. Narrow types are summed as DeviceGroup has it.
//
// A member that is gone would keep the queue for ever, and whoever waits for the queue. So a thread looks after what is
// under way, and at an exchange's deadline or where a member is gone aborts the group: the queue goes on, with values
// that are of no use, and Error() says why.
class LibraryRankGroup final : public RankGroup {
 public:
  // `members`: the unit's ranks, ascending, this one among them; `group` is of them, in that order. `queue` and
  // `transport` outlive it; no messages between any two of the members have `channel`. `deadline` is asked for the
  // moment by which the device has to have done an exchange that is submitted now, and what the queue held before.
  LibraryRankGroup(std::unique_ptr<DeviceGroup> group, DeviceQueue& queue, Transport& transport,
                   std::vector<int> members, uint16_t channel, std::function<absl::Time()> deadline);
  // Aborts what is under way.
  ~LibraryRankGroup() override;

  int members() const override { return static_cast<int>(members_.size()); }
  int member() const override { return member_; }

  // Errors: as of Error().
  absl::Status Sum(const Slice& x) override;
  absl::Status BeginSum(const Slice& x) override;
  absl::Status EndSum() override { return FollowExchange(); }
  absl::Status Gather(const Slice& x, absl::Span<const int64_t> ends) override;
  absl::Status Scatter(const Slice& x, absl::Span<const int64_t> ends) override;

  // DeadlineExceeded, Unavailable: names the members; others: of the transport, the queue or the DeviceGroup.
  absl::Status Error() override;

 private:
  // Has an exchange begin when the queue has come to it; the queue goes on meanwhile.
  absl::Status Begin(absl::FunctionRef<absl::Status(DeviceGroup& group, Fence after)> exchange);
  // Has the queue go on behind what was begun.
  absl::Status FollowExchange();
  absl::Status Submit(absl::FunctionRef<absl::Status(DeviceGroup& group, Fence after)> exchange);
  // Whether the queue goes on behind what was submitted; false: ask again.
  absl::StatusOr<bool> Follow();
  // Of the thread that looks after what is under way.
  void Look();
  // Whether nothing is under way any more, or what ends it.
  absl::StatusOr<bool> IsDone() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the group's error, which is `error` if there was none.
  absl::Status Fail(const absl::Status& error) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  DeviceQueue& queue_;
  Transport& transport_;
  const std::vector<int> members_;
  const int member_;
  const uint16_t channel_;
  const std::function<absl::Time()> deadline_;

  Mutex mutex_;
  ConditionVariable changed_;
  const std::unique_ptr<DeviceGroup> group_ ABSL_PT_GUARDED_BY(mutex_);
  bool under_way_ ABSL_GUARDED_BY(mutex_) = false;
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time must_end_at_ ABSL_GUARDED_BY(mutex_);  // what is under way
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  std::thread looking_;
};

}  // namespace medley
