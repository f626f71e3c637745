#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "comm/faulty/fault_plan.h"
#include "comm/transport/transport.h"
#include "runtime/base/mutex.h"

namespace medley {

class FaultSchedule;

// A transfer that has not started in the inner transport yet, or has.
class DelayedTransfer final : public Transfer {
 public:
  struct Operation {
    FaultPlan::Direction direction = FaultPlan::Direction::kSend;
    int peer = 0;
    MessageTag tag;
    size_t bytes = 0;
    std::function<absl::StatusOr<std::unique_ptr<Transfer>>()> start;
  };
  DelayedTransfer(FaultSchedule& schedule, Operation operation)
      : schedule_(schedule), operation_(std::move(operation)) {}
  ~DelayedTransfer() override;
  absl::Status Wait(absl::Time deadline) override;
  bool Done() override;

 private:
  friend class FaultSchedule;
  // Whether it has started, or could not.
  bool begun() const { return inner_ != nullptr || !failure_.ok(); }

  FaultSchedule& schedule_;
  const Operation operation_;
  absl::Time due_;  // this and the rest guarded by FaultSchedule::mutex_; inner_ and failure_ stay once begun
  uint64_t number_ = 0;
  bool waiting_ = false;  // in the schedule
  std::unique_ptr<Transfer> inner_;
  absl::Status failure_;
  ConditionVariable changed_;
};

// The operations of one rank that wait for their time, and the thread that starts them.
class FaultSchedule {
 public:
  FaultSchedule(Transport& inner, const FaultOptions& options, std::function<void()> on_vanish);
  ~FaultSchedule();

  // Starts `transfer`, or keeps it until it is due or destroyed.
  void Add(DelayedTransfer& transfer);
  void Abort(const std::string& reason);
  void MarkGone(int peer, const std::string& why);
  // That threads spent in Wait before their transfer had started.
  double WaitSeconds(int peer, MessageTag::Kind kind) const;

 private:
  friend class DelayedTransfer;
  // Operations of one stream start in the order in which they came.
  using Stream = std::tuple<FaultPlan::Direction, int, MessageTag::Kind, uint16_t, uint32_t>;
  static Stream StreamOf(const DelayedTransfer& transfer);

  void Run();
  void Begin(DelayedTransfer& transfer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(DelayedTransfer& transfer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Begins, in order, all that wait for `peer`, or for anyone if it is negative; later ones will not wait.
  void Release(int peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Transport& inner_;
  const std::function<void()> on_vanish_;
  mutable Mutex mutex_;
  ConditionVariable wake_;
  FaultPlan plan_ ABSL_GUARDED_BY(mutex_);
  uint64_t added_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool vanished_ ABSL_GUARDED_BY(mutex_) = false;
  bool all_released_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<int> released_ ABSL_GUARDED_BY(mutex_);
  // By due time, then as they came. Stalled ones are due in the infinite future.
  std::map<std::pair<absl::Time, uint64_t>, DelayedTransfer*> queue_ ABSL_GUARDED_BY(mutex_);
  std::map<Stream, std::deque<DelayedTransfer*>> streams_ ABSL_GUARDED_BY(mutex_);
  std::map<std::pair<int, MessageTag::Kind>, double> wait_seconds_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace medley
