#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "comm/transport/transport.h"
#include "runtime/base/mutex.h"
#include "runtime/device/copy_lane.h"
#include "runtime/device/device_queue.h"
#include "runtime/device/rank_group.h"
#include "runtime/ir/collective/collective_choice.h"
#include "runtime/ir/collective/collective_schedule.h"

namespace medley {

// The ranks of a unit exchanging through the host: each call waits until the device has what it sends, and
// returns when what came is on its way to the device. Where the host reaches the device's memory nothing is
// copied. Sums are made in f32, whatever is stored; bf16 travels as it is.
//
// A sum that is begun is made by a thread of the group's own, with a lane for the copies; who ends it waits for that thread.
class StagedRankGroup final : public RankGroup {
 public:
  struct Watch {
    std::function<absl::Time()>
        deadline;  // of an exchange that begins now; asked on the thread that makes it
    std::function<void(bool)>
        waits_for_peers;  // from now on, or not any more; told on the thread that calls the group
  };
  // How vectors of so many elements are summed, the same at all members.
  using Choice = std::function<CollectiveChoice(int64_t elements)>;
  // `members`: the unit's ranks, ascending, this one among them. `queue` and `transport` outlive the group.
  // The messages of its exchanges have `channel` to themselves between any two of them.
  StagedRankGroup(DeviceQueue& queue, Transport& transport, std::vector<int> members, uint16_t channel,
                  Choice choice, Watch watch);
  // Waits for a sum that was begun and not ended; it ends at once where the transport was aborted.
  ~StagedRankGroup() override;

  int members() const override { return static_cast<int>(members_.size()); }
  int member() const override { return member_; }

  // DeadlineExceeded, Unavailable: names the peer. Others: of the transport or the device.
  absl::Status Sum(const Slice& x) override;
  absl::Status BeginSum(const Slice& x) override;
  absl::Status EndSum() override;
  absl::Status Gather(const Slice& x, absl::Span<const int64_t> ends) override;
  // In one round: each sends to each what it has of the other's part, as it is stored. Added in the order of
  // the members, in f32, and rounded once.
  absl::Status Scatter(const Slice& x, absl::Span<const int64_t> ends) override;

 private:
  // The bytes of `x` on the host, once the device has made them.
  absl::StatusOr<absl::Span<std::byte>> FromDevice(const Slice& x);
  absl::Status ToDevice(const Slice& x, absl::Span<const std::byte> bytes);
  // `bytes`, stored as `dtype`, become their sum over the ranks.
  absl::Status SumOnHost(absl::Span<std::byte> bytes, Dtype dtype);
  absl::Status SumFloats(absl::Span<float> values, Dtype stored);
  // While `waiting` runs, this rank waits for the others.
  absl::Status WaitForPeers(absl::FunctionRef<absl::Status()> waiting);
  // Of a vector on the host, which the members cut at elements `ends`: the bytes of member m's part.
  struct Parts {
    absl::Span<std::byte> bytes;
    absl::Span<const int64_t> ends;
    int64_t element_bytes = 0;
    absl::Span<std::byte> of(int m) const;
  };
  // Sends from(m) to each other member m while to(m) comes from it; nothing where they are empty.
  absl::Status ExchangeWithEach(absl::FunctionRef<absl::Span<std::byte>(int m)> to,
                                absl::FunctionRef<absl::Span<std::byte>(int m)> from);
  // The own part becomes its sum with the parts in `received_`.
  void AddReceived(absl::Span<std::byte> own, Dtype dtype);

  // A sum beside what the queue is given.
  struct BegunSum {
    Slice x;
    Fence after;  // of the queue
    enum class State { kAwaitsDevice, kTravels, kDone } state = State::kAwaitsDevice;
    // Once it is done: what came of it, and when the lane has brought it to the device, if it has to.
    absl::Status status;
    std::optional<Fence> arrives;
  };
  // Of the thread that makes the sums that are begun.
  void MakeBegunSums();
  absl::StatusOr<std::optional<Fence>> MakeSum(const Slice& x, Fence after);

  DeviceQueue& queue_;
  Transport& transport_;
  const std::vector<int> members_;
  const int member_;
  const uint16_t channel_;
  const Choice choice_;
  const Watch watch_;
  std::map<int64_t, CollectiveSchedule> schedules_;  // by elements; of this member alone
  std::vector<std::byte> staged_;                    // where the host does not reach the device's memory
  std::vector<float> wide_;                          // of what is stored in a narrower type, and of sums
  std::vector<std::byte> received_;                  // of each member, as much as this one's part

  // Of sums that are begun; the lane and its memory only where the host does not reach the device's.
  std::unique_ptr<CopyLane> lane_;
  std::unique_ptr<PinnedMemory> pinned_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::optional<BegunSum> begun_ ABSL_GUARDED_BY(mutex_);
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread summing_;  // from the first one on
};

}  // namespace medley
