#include "coordinator/rpc/task_stream.h"

#include <optional>
#include <utility>

#include "runtime/base/clock.h"
#include "runtime/wire/grpc_status.h"

namespace medley {
namespace {

// Between two tries to hear of a task again.
constexpr absl::Duration kBetweenTries = absl::Milliseconds(100);
// An agent that is to begin a task has heard of it within so long, unless something is wrong with it.
constexpr absl::Duration kBeginTime = absl::Seconds(5);
// An end of a call that the agent has begun comes within so long.
constexpr absl::Duration kFinishTime = absl::Seconds(2);

absl::Status NobodyListens() { return absl::CancelledError("nobody listens any more"); }

}  // namespace

// Lives until its last call has ended.
class TaskStream::Listening : public std::enable_shared_from_this<Listening> {
 public:
  Listening(TimerQueue& timers, std::shared_ptr<v1::Agent::Stub> stub, const v1::StartRequest& request,
            absl::Duration patience, TaskListener listener)
      : timers_(timers),
        stub_(std::move(stub)),
        request_(request),
        patience_(patience),
        listener_(std::move(listener)),
        has_begun_(request.only_follow()) {}

  void Try();
  void Cancel();
  void AwaitEnd();

 private:
  class Call;
  void Heard(const v1::WorkerEvent& event);
  void Answered();
  void CallEnded(bool finished, const grpc::Status& status);
  void End(const absl::Status& status);

  TimerQueue& timers_;
  const std::shared_ptr<v1::Agent::Stub> stub_;
  v1::StartRequest request_;  // changed between calls alone
  const absl::Duration patience_;
  const TaskListener listener_;
  uint64_t last_number_ = 0;  // of the newest event, of the call's thread; 0: none came
  Mutex mutex_;
  ConditionVariable changed_;
  std::shared_ptr<Call> call_ ABSL_GUARDED_BY(mutex_);  // under way
  // When the first of the calls failed since the agent answered one. A task may be silent for days.
  std::optional<absl::Time> failing_since_ ABSL_GUARDED_BY(mutex_);
  bool has_begun_ ABSL_GUARDED_BY(mutex_);  // the task, or its agent has heard that it should
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // and the listener knows it
};

// Holds itself until gRPC is done with it.
class TaskStream::Listening::Call : public grpc::ClientReadReactor<v1::WorkerEvent>,
                                    public std::enable_shared_from_this<Call> {
 public:
  explicit Call(std::shared_ptr<Listening> listening) : listening_(std::move(listening)) {}

  void Begin() {
    self_ = shared_from_this();
    listening_->stub_->async()->Start(&context_, &listening_->request_, this);
    StartRead(&event_);
    StartCall();
  }
  void Cancel() { context_.TryCancel(); }

  void OnReadInitialMetadataDone(bool ok) override {
    if (ok) listening_->Answered();
  }
  void OnReadDone(bool ok) override {
    if (ok) {
      listening_->Heard(event_);
      finished_ = event_.has_finished();
      if (!finished_) return StartRead(&event_);
    }
    // An event that cannot be read leaves the call open, and its end would be waited for in vain.
    listening_->timers_.At(Now() + kFinishTime, [call = weak_from_this()] {
      if (const std::shared_ptr<Call> open = call.lock()) open->Cancel();
    });
  }
  void OnDone(const grpc::Status& status) override {
    const std::shared_ptr<Call> self = std::move(self_);
    listening_->CallEnded(finished_, status);
  }

 private:
  const std::shared_ptr<Listening> listening_;
  grpc::ClientContext context_;
  v1::WorkerEvent event_;
  bool finished_ = false;
  std::shared_ptr<Call> self_;
};

void TaskStream::Listening::Try() {
  const auto call = std::make_shared<Call>(shared_from_this());
  {
    MutexLock lock(mutex_);
    if (ending_) return;  // cancelled between two tries
    if (last_number_ > 0) request_.set_after_event(last_number_);
    call_ = call;
  }
  call->Begin();
}

void TaskStream::Listening::Answered() {
  std::shared_ptr<Call> unwanted;
  {
    MutexLock lock(mutex_);
    failing_since_.reset();
    has_begun_ = true;
    if (cancelled_) unwanted = call_;
  }
  if (unwanted != nullptr) unwanted->Cancel();
}

void TaskStream::Listening::Heard(const v1::WorkerEvent& event) {
  last_number_ = event.number();
  listener_.event(event);
}

void TaskStream::Listening::CallEnded(bool finished, const grpc::Status& grpc_status) {
  const absl::Status status = FromGrpc(grpc_status);
  bool cancelled = false;
  {
    MutexLock lock(mutex_);
    call_ = nullptr;
    cancelled = cancelled_;
    // An agent that cannot be reached for a moment still has the task, and what it said meanwhile.
    const absl::Time now = Now();
    if (!failing_since_) failing_since_ = now;
    if (!finished && !cancelled && absl::IsUnavailable(status) && now < *failing_since_ + patience_) {
      timers_.At(now + kBetweenTries, [again = weak_from_this()] {
        if (const std::shared_ptr<Listening> listening = again.lock()) listening->Try();
      });
      return;
    }
  }
  if (finished) return End(absl::OkStatus());
  if (cancelled) return End(NobodyListens());
  End(absl::IsCancelled(status) ? absl::CancelledError("the task was stopped, or says what cannot be read")
                                : status);
}

void TaskStream::Listening::Cancel() {
  std::shared_ptr<Call> call;
  bool has_begun = false;
  {
    MutexLock lock(mutex_);
    cancelled_ = true;
    call = call_;
    has_begun = has_begun_;
  }
  if (call == nullptr) return End(NobodyListens());
  if (has_begun) return call->Cancel();
  // A call that is cancelled before the agent has heard of it leaves a task behind that never begins, and that the next coordinator
  // would take for lost. Answered cancels it.
  timers_.At(Now() + kBeginTime, [late = std::weak_ptr<Call>(call)] {
    if (const std::shared_ptr<Call> open = late.lock()) open->Cancel();
  });
}

void TaskStream::Listening::End(const absl::Status& status) {
  {
    MutexLock lock(mutex_);
    if (ending_) return;
    ending_ = true;
  }
  listener_.ended(status);
  MutexLock lock(mutex_);
  ended_ = true;
  changed_.NotifyAll();
}

void TaskStream::Listening::AwaitEnd() {
  MutexLock lock(mutex_);
  changed_.WaitUntil(mutex_, absl::InfiniteFuture(), [&] { return ended_; });
}

TaskStream::TaskStream(TimerQueue& timers, std::shared_ptr<v1::Agent::Stub> stub,
                       const v1::StartRequest& request, absl::Duration patience, TaskListener listener)
    : listening_(
          std::make_shared<Listening>(timers, std::move(stub), request, patience, std::move(listener))) {
  listening_->Try();
}

TaskStream::~TaskStream() {
  listening_->Cancel();
  listening_->AwaitEnd();
}

void TaskStream::Cancel() { listening_->Cancel(); }

}  // namespace medley
