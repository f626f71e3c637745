#include "coordinator/rpc/grpc_agent_client.h"

#include <utility>

#include "coordinator/rpc/task_stream.h"
#include "runtime/base/clock.h"
#include "runtime/wire/grpc_channel.h"
#include "runtime/wire/grpc_status.h"

namespace medley {
namespace {

constexpr absl::Duration kKeepalive = absl::Seconds(3);
constexpr absl::Duration kStopTime = absl::Seconds(1);
// The times of a traced step: 16 bytes an instruction, so of 16 million instructions.
constexpr Bytes kMostReply = MiB(256);

}  // namespace

GrpcAgentClient::~GrpcAgentClient() {
  {
    MutexLock lock(mutex_);
    changed_.WaitUntil(mutex_, absl::InfiniteFuture(), [&] { return under_way_ == 0; });
    stubs_.clear();
  }
  {
    MutexLock lock(unused_->mutex);
    unused_->changed.WaitUntil(unused_->mutex, absl::InfiniteFuture(), [&] { return unused_->used == 0; });
  }
  DestroyUnused();
}

void GrpcAgentClient::DestroyUnused() {
  std::vector<std::unique_ptr<v1::Agent::Stub>> stubs;  // ends without the lock
  MutexLock lock(unused_->mutex);
  stubs.swap(unused_->stubs);
}

std::shared_ptr<v1::Agent::Stub> GrpcAgentClient::StubOf(const std::string& agent_address) {
  DestroyUnused();
  MutexLock lock(mutex_);
  const absl::Time now = Now();
  if (now - looked_for_idle_ >= keep_idle_) {
    looked_for_idle_ = now;
    std::erase_if(stubs_, [&](const auto& entry) {
      return entry.second.stub.use_count() == 1 && now - entry.second.used >= keep_idle_;
    });
  }
  Kept& kept = stubs_[agent_address];
  kept.used = now;
  if (kept.stub == nullptr) {
    {
      MutexLock counting(unused_->mutex);
      ++unused_->used;
    }
    kept.stub = {v1::Agent::NewStub(OpenChannel(agent_address, {.keepalive = kKeepalive,
                                                                .most_reply = kMostReply,
                                                                .credentials = credentials_}))
                     .release(),
                 [unused = unused_](v1::Agent::Stub* stub) {
                   MutexLock putting(unused->mutex);
                   unused->stubs.emplace_back(stub);
                   --unused->used;
                   unused->changed.NotifyAll();
                 }};
  }
  return kept.stub;
}

int GrpcAgentClient::channels() {
  MutexLock lock(mutex_);
  return static_cast<int>(stubs_.size());
}

template <typename Request, typename Response>
void GrpcAgentClient::Ask(const std::string& agent_address, Method<Request, Response> method,
                          const Request& request, absl::Time deadline, Answered<Response> answered) {
  struct Call {
    std::shared_ptr<v1::Agent::Stub> stub;
    grpc::ClientContext context;
    Request request;
    Response response;
  };
  const auto call = std::make_shared<Call>();
  call->stub = StubOf(agent_address);
  call->request = request;
  if (deadline != absl::InfiniteFuture()) call->context.set_deadline(ToSystemClock(deadline));
  {
    MutexLock lock(mutex_);
    ++under_way_;
  }
  const auto done = [this, call, answered = std::move(answered)](const grpc::Status& status) {
    status.ok() ? answered(std::move(call->response)) : answered(FromGrpc(status));
    MutexLock lock(mutex_);
    --under_way_;
    changed_.NotifyAll();
  };
  (call->stub->async()->*method)(&call->context, &call->request, &call->response, done);
}

void GrpcAgentClient::Prepare(const std::string& agent_address, const v1::PrepareRequest& request,
                              Answered<v1::PrepareResponse> answered) {
  Ask<v1::PrepareRequest, v1::PrepareResponse>(agent_address, &Async::Prepare, request,
                                               absl::InfiniteFuture(), std::move(answered));
}

std::unique_ptr<RunningTask> GrpcAgentClient::Start(const std::string& agent_address,
                                                    const v1::StartRequest& request, absl::Duration patience,
                                                    TaskListener listener) {
  return std::make_unique<TaskStream>(timers_, StubOf(agent_address), request, patience, std::move(listener));
}

void GrpcAgentClient::DescribeKernels(const std::string& agent_address, absl::Time deadline,
                                      Answered<v1::NodeKernels> answered) {
  Ask<v1::DescribeKernelsRequest, v1::NodeKernels>(agent_address, &Async::DescribeKernels, {}, deadline,
                                                   std::move(answered));
}

void GrpcAgentClient::DescribeStacks(const std::string& agent_address,
                                     const v1::DescribeStacksRequest& request, absl::Time deadline,
                                     Answered<v1::DescribeStacksResponse> answered) {
  Ask<v1::DescribeStacksRequest, v1::DescribeStacksResponse>(agent_address, &Async::DescribeStacks, request,
                                                             deadline, std::move(answered));
}

void GrpcAgentClient::CheckNode(const std::string& agent_address, const v1::CheckNodeRequest& request,
                                absl::Time deadline, Answered<v1::NodeCheck> answered) {
  Ask<v1::CheckNodeRequest, v1::NodeCheck>(agent_address, &Async::CheckNode, request, deadline,
                                           std::move(answered));
}

void GrpcAgentClient::Stop(const std::string& agent_address, const v1::StopRequest& request,
                           std::function<void(const absl::Status&)> answered) {
  Ask<v1::StopRequest, v1::StopResponse>(
      agent_address, &Async::Stop, request, Now() + kStopTime,
      [answered = std::move(answered)](const absl::StatusOr<v1::StopResponse>& response) {
        answered(response.status());
      });
}

}  // namespace medley
