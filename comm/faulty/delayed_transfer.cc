#include "comm/faulty/delayed_transfer.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comm/transport/message_tag.h"
#include "runtime/base/clock.h"

namespace medley {

DelayedTransfer::~DelayedTransfer() {
  MutexLock lock(schedule_.mutex_);
  if (waiting_) schedule_.Forget(*this);
}

bool DelayedTransfer::Done() {
  {
    MutexLock lock(schedule_.mutex_);
    if (!begun()) return false;
  }
  return inner_ == nullptr || inner_->Done();
}

absl::Status DelayedTransfer::Wait(absl::Time deadline) {
  {
    MutexLock lock(schedule_.mutex_);
    if (!begun()) {
      const absl::Time begin = Now();
      const bool in_time = changed_.WaitUntil(schedule_.mutex_, deadline, [this] { return begun(); });
      schedule_.wait_seconds_[{operation_.peer, operation_.tag.kind}] += absl::ToDoubleSeconds(Now() - begin);
      if (!in_time) {
        const bool send = operation_.direction == FaultPlan::Direction::kSend;
        return absl::DeadlineExceededError(absl::StrCat(
            send ? "send" : "receive", " of ", operation_.bytes, " bytes ", send ? "to" : "from", " rank ",
            operation_.peer, " (", DescribeTag(operation_.tag), ") not done at the deadline"));
      }
    }
  }
  return inner_ == nullptr ? failure_ : inner_->Wait(deadline);
}

FaultSchedule::FaultSchedule(Transport& inner, const FaultOptions& options, std::function<void()> on_vanish)
    : inner_(inner),
      on_vanish_(std::move(on_vanish)),
      plan_(options, inner.rank()),
      thread_([this] { Run(); }) {}

FaultSchedule::~FaultSchedule() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    wake_.NotifyAll();
  }
  thread_.join();
}

FaultSchedule::Stream FaultSchedule::StreamOf(const DelayedTransfer& transfer) {
  const DelayedTransfer::Operation& operation = transfer.operation_;
  return {operation.direction, operation.peer, operation.tag.kind, operation.tag.channel,
          operation.tag.sequence};
}

void FaultSchedule::Add(DelayedTransfer& transfer) {
  const DelayedTransfer::Operation& operation = transfer.operation_;
  MutexLock lock(mutex_);
  const FaultPlan::Verdict verdict = plan_.Next(operation.direction, operation.peer, operation.bytes, Now());
  if (verdict.kind == FaultPlan::Verdict::Kind::kVanish && !vanished_) {
    vanished_ = true;
    inner_.Abort("this rank has vanished");
    Release(-1);
    wake_.NotifyAll();
  }
  const Stream stream = StreamOf(transfer);
  const auto before = streams_.find(stream);
  transfer.due_ = verdict.kind == FaultPlan::Verdict::Kind::kStall ? absl::InfiniteFuture() : verdict.due;
  if (before != streams_.end()) transfer.due_ = std::max(transfer.due_, before->second.back()->due_);
  if (all_released_ || released_.count(operation.peer) > 0 || transfer.due_ == absl::InfinitePast()) {
    return Begin(transfer);
  }
  transfer.number_ = added_++;
  transfer.waiting_ = true;
  queue_[{transfer.due_, transfer.number_}] = &transfer;
  streams_[stream].push_back(&transfer);
  if (queue_.begin()->second == &transfer) wake_.NotifyAll();
}

void FaultSchedule::Abort(const std::string& reason) {
  MutexLock lock(mutex_);
  inner_.Abort(reason);
  Release(-1);
}

void FaultSchedule::MarkGone(int peer, const std::string& why) {
  MutexLock lock(mutex_);
  inner_.MarkGone(peer, why);
  Release(peer);
}

double FaultSchedule::WaitSeconds(int peer, MessageTag::Kind kind) const {
  MutexLock lock(mutex_);
  const auto found = wait_seconds_.find({peer, kind});
  return found == wait_seconds_.end() ? 0 : found->second;
}

void FaultSchedule::Run() {
  bool told = on_vanish_ == nullptr;  // on_vanish_ needs no call any more
  while (true) {
    {
      MutexLock lock(mutex_);
      while (!stopping_ && (told || !vanished_)) {
        const absl::Time next = queue_.empty() ? absl::InfiniteFuture() : queue_.begin()->first.first;
        if (next <= Now()) {
          DelayedTransfer& transfer = *queue_.begin()->second;
          Forget(transfer);
          Begin(transfer);
          continue;
        }
        wake_.WaitUntil(mutex_, next, [this, next, told]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
          return stopping_ || (vanished_ && !told) || (!queue_.empty() && queue_.begin()->first.first < next);
        });
      }
      if (told || !vanished_) return;
    }
    on_vanish_();
    told = true;
  }
}

void FaultSchedule::Begin(DelayedTransfer& transfer) {
  absl::StatusOr<std::unique_ptr<Transfer>> started = transfer.operation_.start();
  if (started.ok()) {
    transfer.inner_ = *std::move(started);
  } else {
    transfer.failure_ = started.status();
  }
  transfer.changed_.NotifyAll();
}

void FaultSchedule::Forget(DelayedTransfer& transfer) {
  transfer.waiting_ = false;
  queue_.erase({transfer.due_, transfer.number_});
  const auto stream = streams_.find(StreamOf(transfer));
  std::erase(stream->second, &transfer);
  if (stream->second.empty()) streams_.erase(stream);
}

void FaultSchedule::Release(int peer) {
  if (peer < 0) all_released_ = true;
  released_.insert(peer);
  std::vector<DelayedTransfer*> released;
  for (const auto& [when, transfer] : queue_) {
    if (peer < 0 || transfer->operation_.peer == peer) released.push_back(transfer);
  }
  for (DelayedTransfer* transfer : released) {
    Forget(*transfer);
    Begin(*transfer);
  }
}

}  // namespace medley
