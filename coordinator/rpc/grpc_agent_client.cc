#include "coordinator/rpc/grpc_agent_client.h"

#include <thread>

#include "absl/strings/str_cat.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"
#include "runtime/wire/grpc_channel.h"
#include "runtime/wire/grpc_status.h"

namespace medley {
namespace {

constexpr absl::Duration kKeepalive = absl::Seconds(3);

// Between two tries to hear of a task again.
constexpr absl::Duration kBetweenTries = absl::Milliseconds(100);
// An end of a call that the agent has begun comes within so long.
constexpr absl::Duration kFinishTime = absl::Seconds(2);

class GrpcRunningTask final : public RunningTask {
 public:
  GrpcRunningTask(std::shared_ptr<v1::Agent::Stub> stub, const v1::StartRequest& request,
                  absl::Duration patience, std::function<void(const v1::WorkerEvent&)> on_event)
      : stub_(std::move(stub)),
        request_(request),
        patience_(patience),
        on_event_(std::move(on_event)),
        thread_([this] { status_ = Listen(); }) {}
  ~GrpcRunningTask() override {
    Cancel();
    (void)Join();
  }
  void Cancel() override {
    MutexLock lock(mutex_);
    cancelled_ = true;
    if (context_ != nullptr) context_->TryCancel();
    changed_.NotifyAll();
  }
  absl::Status Join() override {
    if (thread_.joinable()) thread_.join();
    return status_;
  }

 private:
  absl::Status Listen() {
    absl::Time heard = Now();
    while (true) {
      const absl::Status status = ListenOnce(heard);
      // An agent that cannot be reached for a moment still has the task, and what it said meanwhile.
      if (!absl::IsUnavailable(status) || Now() > heard + patience_) return status;
      MutexLock lock(mutex_);
      if (changed_.WaitUntil(mutex_, Now() + kBetweenTries, [&] { return cancelled_; })) {
        return absl::CancelledError("nobody listens any more");
      }
    }
  }

  absl::Status ListenOnce(absl::Time& heard) {
    grpc::ClientContext context;
    {
      MutexLock lock(mutex_);
      if (cancelled_) return absl::CancelledError("nobody listens any more");
      context_ = &context;
    }
    const std::unique_ptr<grpc::ClientReader<v1::WorkerEvent>> reader = stub_->Start(&context, request_);
    v1::WorkerEvent event;
    bool finished = false;
    while (!finished && reader->Read(&event)) {
      heard = Now();
      request_.set_after_event(event.number());
      on_event_(event);
      finished = event.has_finished();
    }
    const absl::Status status = Finish(*reader, context);
    MutexLock lock(mutex_);
    context_ = nullptr;
    if (finished) return absl::OkStatus();
    if (cancelled_) return absl::CancelledError("nobody listens any more");
    if (absl::IsCancelled(status))
      return absl::CancelledError("the task was stopped, or says what cannot be read");
    return status;
  }

  // An event that cannot be read leaves the call open, and its end would be waited for in vain.
  absl::Status Finish(grpc::ClientReader<v1::WorkerEvent>& reader, grpc::ClientContext& context) {
    bool done = false;
    std::thread guard([&] {
      MutexLock lock(mutex_);
      if (!changed_.WaitUntil(mutex_, Now() + kFinishTime, [&] { return done; })) context.TryCancel();
    });
    const absl::Status status = FromGrpc(reader.Finish());
    {
      MutexLock lock(mutex_);
      done = true;
      changed_.NotifyAll();
    }
    guard.join();
    return status;
  }

  const std::shared_ptr<v1::Agent::Stub> stub_;
  v1::StartRequest request_;
  const absl::Duration patience_;
  const std::function<void(const v1::WorkerEvent&)> on_event_;
  Mutex mutex_;
  ConditionVariable changed_;
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;  // of the call under way
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_;
  std::thread thread_;
};

}  // namespace

std::shared_ptr<v1::Agent::Stub> GrpcAgentClient::StubOf(const std::string& agent_address) {
  MutexLock lock(mutex_);
  std::shared_ptr<v1::Agent::Stub>& stub = stubs_[agent_address];
  if (stub == nullptr) {
    // Large replies: the times of a step with many micro-batches.
    stub = v1::Agent::NewStub(OpenChannel(agent_address, {.keepalive = kKeepalive, .most_reply = MiB(64)}));
  }
  return stub;
}

absl::StatusOr<v1::PrepareResponse> GrpcAgentClient::Prepare(const std::string& agent_address,
                                                             const v1::PrepareRequest& request) {
  grpc::ClientContext context;
  v1::PrepareResponse response;
  RETURN_IF_ERROR(FromGrpc(StubOf(agent_address)->Prepare(&context, request, &response)));
  return response;
}

std::unique_ptr<RunningTask> GrpcAgentClient::Start(const std::string& agent_address,
                                                    const v1::StartRequest& request, absl::Duration patience,
                                                    std::function<void(const v1::WorkerEvent&)> on_event) {
  return std::make_unique<GrpcRunningTask>(StubOf(agent_address), request, patience, std::move(on_event));
}

absl::StatusOr<v1::NodeKernels> GrpcAgentClient::DescribeKernels(const std::string& agent_address,
                                                                 absl::Time deadline) {
  grpc::ClientContext context;
  context.set_deadline(ToSystemClock(deadline));
  v1::NodeKernels response;
  RETURN_IF_ERROR(
      FromGrpc(StubOf(agent_address)->DescribeKernels(&context, v1::DescribeKernelsRequest(), &response)));
  return response;
}

void GrpcAgentClient::Stop(const std::string& agent_address, const v1::StopRequest& request) {
  grpc::ClientContext context;
  context.set_deadline(ToSystemClock(Now() + absl::Seconds(1)));
  v1::StopResponse response;
  (void)StubOf(agent_address)->Stop(&context, request, &response);
}

}  // namespace medley
