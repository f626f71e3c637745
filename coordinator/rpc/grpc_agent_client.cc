#include "coordinator/rpc/grpc_agent_client.h"

#include <grpcpp/create_channel.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"
#include "runtime/rpc/grpc_status.h"

namespace medley {
namespace {

constexpr int kKeepaliveMilliseconds = 3000;

class GrpcRunningTask final : public RunningTask {
 public:
  GrpcRunningTask(std::shared_ptr<v1::Agent::Stub> stub, const v1::StartRequest& request,
                  std::function<void(const v1::WorkerEvent&)> on_event)
      : stub_(std::move(stub)), thread_([this, request, on_event = std::move(on_event)] {
          const std::unique_ptr<grpc::ClientReader<v1::WorkerEvent>> reader = stub_->Start(&context_, request);
          v1::WorkerEvent event;
          while (reader->Read(&event)) on_event(event);
          status_ = FromGrpc(reader->Finish());
        }) {}
  ~GrpcRunningTask() override {
    Cancel();
    (void)Join();
  }
  void Cancel() override { context_.TryCancel(); }
  absl::Status Join() override {
    if (thread_.joinable()) thread_.join();
    return status_;
  }

 private:
  const std::shared_ptr<v1::Agent::Stub> stub_;
  grpc::ClientContext context_;
  absl::Status status_;
  std::thread thread_;
};

}  // namespace

std::shared_ptr<v1::Agent::Stub> GrpcAgentClient::StubOf(const std::string& agent_address) {
  MutexLock lock(mutex_);
  std::shared_ptr<v1::Agent::Stub>& stub = stubs_[agent_address];
  if (stub == nullptr) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
    // A host that vanishes resets no connection: calls to it fail within twice this.
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMilliseconds);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveMilliseconds);
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    stub = v1::Agent::NewStub(grpc::CreateCustomChannel(agent_address, grpc::InsecureChannelCredentials(), arguments));
  }
  return stub;
}

absl::StatusOr<v1::PrepareResponse> GrpcAgentClient::Prepare(const std::string& agent_address,
                                                             const v1::PrepareRequest& request, absl::Time deadline) {
  grpc::ClientContext context;
  context.set_deadline(ToSystemClock(deadline));
  v1::PrepareResponse response;
  RETURN_IF_ERROR(FromGrpc(StubOf(agent_address)->Prepare(&context, request, &response)));
  return response;
}

std::unique_ptr<RunningTask> GrpcAgentClient::Start(const std::string& agent_address, const v1::StartRequest& request,
                                                    std::function<void(const v1::WorkerEvent&)> on_event) {
  return std::make_unique<GrpcRunningTask>(StubOf(agent_address), request, std::move(on_event));
}

absl::StatusOr<v1::NodeKernels> GrpcAgentClient::DescribeKernels(const std::string& agent_address,
                                                                 absl::Time deadline) {
  grpc::ClientContext context;
  context.set_deadline(ToSystemClock(deadline));
  v1::NodeKernels response;
  RETURN_IF_ERROR(FromGrpc(StubOf(agent_address)->DescribeKernels(&context, v1::DescribeKernelsRequest(), &response)));
  return response;
}

void GrpcAgentClient::Stop(const std::string& agent_address, const std::string& task_id) {
  grpc::ClientContext context;
  context.set_deadline(ToSystemClock(Now() + absl::Seconds(1)));
  v1::StopRequest request;
  request.set_task_id(task_id);
  v1::StopResponse response;
  (void)StubOf(agent_address)->Stop(&context, request, &response);
}

}  // namespace medley
