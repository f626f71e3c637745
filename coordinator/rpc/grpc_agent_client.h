#pragma once
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/byte_buffer.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/orchestrator/agent_client.h"
#include "coordinator/rpc/timer_queue.h"
#include "proto/medley/v1/agent.grpc.pb.h"
#include "runtime/base/mutex.h"

namespace medley {

// AgentClient over gRPC: one channel an agent, kept while it is used and for some time after. All calls and tasks are served by gRPC's own threads, which are as
// many as there are cores, and one for what is to be done later. The destructor waits for the calls under way; tasks
// end before it.
class GrpcAgentClient final : public AgentClient {
 public:
  // `credentials`: null, in the clear. `keep_idle`: how long a channel that nothing uses is kept; agents that were started anew have
  // other addresses.
  explicit GrpcAgentClient(std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr,
                           absl::Duration keep_idle = absl::Minutes(10))
      : credentials_(std::move(credentials)), keep_idle_(keep_idle) {}
  ~GrpcAgentClient() override;

  int channels();

  void KeepConnected(const std::string& agent_address) override;
  void Disconnect(const std::string& agent_address) override;
  void Prepare(const std::string& agent_address, const PrepareParts& request,
               Answered<v1::PrepareResponse> answered) override;
  std::unique_ptr<RunningTask> Start(const std::string& agent_address, const v1::StartRequest& request,
                                     absl::Duration patience, TaskListener listener) override;
  void DescribeKernels(const std::string& agent_address, absl::Time deadline,
                       Answered<v1::NodeKernels> answered) override;
  void DescribeStacks(const std::string& agent_address, const v1::DescribeStacksRequest& request,
                      absl::Time deadline, Answered<v1::DescribeStacksResponse> answered) override;
  void TraceTask(const std::string& agent_address, const v1::TraceTaskRequest& request, absl::Time deadline,
                 Answered<v1::TraceTaskResponse> answered) override;
  void CheckNode(const std::string& agent_address, const v1::CheckNodeRequest& request, absl::Time deadline,
                 Answered<v1::NodeCheck> answered) override;
  void Stop(const std::string& agent_address, const v1::StopRequest& request,
            std::function<void(const absl::Status&)> answered) override;

 private:
  // A channel to an agent.
  struct Connection {
    explicit Connection(std::shared_ptr<grpc::Channel> to)
        : channel(std::move(to)), stub(channel), prepare(channel) {}
    const std::shared_ptr<grpc::Channel> channel;
    v1::Agent::Stub stub;
    grpc::TemplatedGenericStub<grpc::ByteBuffer, v1::PrepareResponse>
        prepare;  // of requests that are encoded
  };
  using Async = v1::Agent::StubInterface::async_interface;
  template <typename Request, typename Response>
  using Method = void (Async::*)(grpc::ClientContext*, const Request*, Response*,
                                 std::function<void(grpc::Status)>);
  template <typename Response>
  using Begin = std::function<void(Connection&, grpc::ClientContext*, Response*,
                                   std::function<void(grpc::Status)> done)>;
  template <typename Response>
  void Ask(const std::string& agent_address, absl::Time deadline, Begin<Response> begin,
           Answered<Response> answered);
  template <typename Request, typename Response>
  void Ask(const std::string& agent_address, Method<Request, Response> method, Request request,
           absl::Time deadline, Answered<Response> answered);
  std::shared_ptr<Connection> ConnectionTo(const std::string& agent_address) ABSL_LOCKS_EXCLUDED(mutex_);
  // One that a call may use at once: a channel that has failed to connect would refuse it unasked.
  std::shared_ptr<Connection> UsableConnectionTo(const std::string& agent_address)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // A little later. A channel that has failed to connect is given up, or gRPC would try it again each second.
  void SeeWhetherConnected(const std::string& agent_address);
  // So that the next call or attempt begins with a new channel.
  void Drop(const std::string& agent_address, const std::shared_ptr<Connection>& connection)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Connections that nothing uses any more. A channel must not be destroyed by one of gRPC's own callbacks, where the last use of
  // one often ends: those that are here are destroyed by whoever asks for a connection next, or by the destructor.
  struct Unused {
    Mutex mutex;
    ConditionVariable changed;
    std::vector<std::unique_ptr<Connection>> connections ABSL_GUARDED_BY(mutex);
    int used ABSL_GUARDED_BY(mutex) = 0;  // that are not here
  };
  void DestroyUnused();

  struct Kept {
    std::shared_ptr<Connection> connection;  // and of each call that uses it
    absl::Time used;
    // Of attempts to connect ahead of any call.
    bool is_watched = false;  // by SeeWhetherConnected
    absl::Duration pause = absl::ZeroDuration();
    absl::Time next_attempt = absl::InfinitePast();
  };

  const std::shared_ptr<grpc::ChannelCredentials> credentials_;
  const absl::Duration keep_idle_;
  const std::shared_ptr<Unused> unused_ = std::make_shared<Unused>();
  Mutex mutex_;
  ConditionVariable changed_;
  std::map<std::string, Kept> connections_ ABSL_GUARDED_BY(mutex_);
  absl::Time looked_for_idle_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  int under_way_ ABSL_GUARDED_BY(mutex_) = 0;  // calls but for tasks
  TimerQueue timers_;                          // whose thread uses the others
};

}  // namespace medley
