#include "coordinator/rpc/grpc_agent_client.h"

#include <algorithm>
#include <utility>

#include "coordinator/rpc/task_stream.h"
#include "runtime/base/clock.h"
#include "runtime/wire/grpc_channel.h"
#include "runtime/wire/grpc_request.h"
#include "runtime/wire/grpc_status.h"

namespace medley {
namespace {

// A thousand connections that nothing uses wake gRPC up each time.
constexpr absl::Duration kKeepalive = absl::Seconds(15);
constexpr absl::Duration kStopTime = absl::Seconds(1);
// Until it is seen whether an agent that nobody asks anything could be connected to, and between attempts if not.
constexpr absl::Duration kConnectTime = absl::Milliseconds(300);
constexpr absl::Duration kFirstPause = absl::Seconds(2), kLongestPause = absl::Minutes(2);
// The times of a traced step: 16 bytes an instruction, so of 16 million instructions.
constexpr Bytes kMostReply = MiB(256);
constexpr char kPrepareMethod[] = "/medley.v1.Agent/Prepare";

// What is shared is not copied: it lives until gRPC has sent it.
grpc::ByteBuffer Encoded(const PrepareParts& request) {
  std::vector<grpc::Slice> slices;
  if (request.shared != nullptr) {
    auto* const held = new std::shared_ptr<const std::string>(request.shared);
    slices.emplace_back(
        const_cast<char*>((*held)->data()), (*held)->size(),
        [](void* user) { delete static_cast<std::shared_ptr<const std::string>*>(user); }, held);
  }
  slices.emplace_back(request.own.SerializeAsString());
  return grpc::ByteBuffer(slices.data(), slices.size());
}

}  // namespace

GrpcAgentClient::~GrpcAgentClient() {
  {
    MutexLock lock(mutex_);
    changed_.WaitUntil(mutex_, absl::InfiniteFuture(), [&] { return under_way_ == 0; });
    connections_.clear();
  }
  {
    MutexLock lock(unused_->mutex);
    unused_->changed.WaitUntil(unused_->mutex, absl::InfiniteFuture(), [&] { return unused_->used == 0; });
  }
  DestroyUnused();
}

void GrpcAgentClient::DestroyUnused() {
  std::vector<std::unique_ptr<Connection>> connections;  // ends without the lock
  MutexLock lock(unused_->mutex);
  connections.swap(unused_->connections);
}

std::shared_ptr<GrpcAgentClient::Connection> GrpcAgentClient::ConnectionTo(const std::string& agent_address) {
  DestroyUnused();
  MutexLock lock(mutex_);
  const absl::Time now = Now();
  if (now - looked_for_idle_ >= keep_idle_) {
    looked_for_idle_ = now;
    std::erase_if(connections_, [&](const auto& entry) {
      return entry.second.connection.use_count() <= 1 && now - entry.second.used >= keep_idle_;
    });
  }
  Kept& kept = connections_[agent_address];
  kept.used = now;
  if (kept.connection == nullptr) {
    {
      MutexLock counting(unused_->mutex);
      ++unused_->used;
    }
    kept.connection = {
        new Connection(OpenChannel(
            agent_address, {.keepalive = kKeepalive, .most_reply = kMostReply, .credentials = credentials_})),
        [unused = unused_](Connection* connection) {
          MutexLock putting(unused->mutex);
          unused->connections.emplace_back(connection);
          --unused->used;
          unused->changed.NotifyAll();
        }};
  }
  return kept.connection;
}

std::shared_ptr<GrpcAgentClient::Connection> GrpcAgentClient::UsableConnectionTo(
    const std::string& agent_address) {
  const std::shared_ptr<Connection> connection = ConnectionTo(agent_address);
  if (connection->channel->GetState(/*try_to_connect=*/false) != GRPC_CHANNEL_TRANSIENT_FAILURE) {
    return connection;
  }
  Drop(agent_address, connection);
  return ConnectionTo(agent_address);
}

void GrpcAgentClient::Drop(const std::string& agent_address, const std::shared_ptr<Connection>& connection) {
  MutexLock lock(mutex_);
  const auto kept = connections_.find(agent_address);
  if (kept != connections_.end() && kept->second.connection == connection) kept->second.connection = nullptr;
}

void GrpcAgentClient::KeepConnected(const std::string& agent_address) {
  {
    MutexLock lock(mutex_);
    const auto kept = connections_.find(agent_address);
    if (kept != connections_.end() && (kept->second.is_watched || Now() < kept->second.next_attempt)) return;
  }
  // gRPC may call what waits for it from here: not with a lock.
  const std::shared_ptr<Connection> connection = ConnectionTo(agent_address);
  if (connection->channel->GetState(/*try_to_connect=*/true) == GRPC_CHANNEL_READY) return;
  {
    MutexLock lock(mutex_);
    connections_[agent_address].is_watched = true;
  }
  SeeWhetherConnected(agent_address);
}

void GrpcAgentClient::SeeWhetherConnected(const std::string& agent_address) {
  timers_.At(Now() + kConnectTime, [this, agent_address] {
    std::shared_ptr<Connection> connection;
    {
      MutexLock lock(mutex_);
      const auto kept = connections_.find(agent_address);
      if (kept != connections_.end()) connection = kept->second.connection;
    }
    const grpc_connectivity_state state =
        connection == nullptr ? GRPC_CHANNEL_SHUTDOWN : connection->channel->GetState(false);
    if (state == GRPC_CHANNEL_CONNECTING) return SeeWhetherConnected(agent_address);
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE) Drop(agent_address, connection);
    MutexLock lock(mutex_);
    const auto kept = connections_.find(agent_address);
    if (kept == connections_.end()) return;
    kept->second.is_watched = false;
    kept->second.pause = state == GRPC_CHANNEL_READY
                             ? absl::ZeroDuration()
                             : std::clamp(2 * kept->second.pause, kFirstPause, kLongestPause);
    kept->second.next_attempt = Now() + kept->second.pause;
  });
}

void GrpcAgentClient::Disconnect(const std::string& agent_address) {
  MutexLock lock(mutex_);
  connections_.erase(agent_address);
}

int GrpcAgentClient::channels() {
  MutexLock lock(mutex_);
  return static_cast<int>(connections_.size());
}

template <typename Response>
void GrpcAgentClient::Ask(const std::string& agent_address, absl::Time deadline, Begin<Response> begin,
                          Answered<Response> answered) {
  struct Call {
    std::shared_ptr<Connection> connection;
    grpc::ClientContext context;
    Begin<Response> begin;  // and the request that it holds
    Response response;
  };
  const auto call = std::make_shared<Call>();
  call->connection = UsableConnectionTo(agent_address);
  call->begin = std::move(begin);
  SendRequestId(call->context);
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
  call->begin(*call->connection, &call->context, &call->response, done);
}

template <typename Request, typename Response>
void GrpcAgentClient::Ask(const std::string& agent_address, Method<Request, Response> method, Request request,
                          absl::Time deadline, Answered<Response> answered) {
  Ask<Response>(
      agent_address, deadline,
      [method, request = std::move(request)](Connection& connection, grpc::ClientContext* context,
                                             Response* response, std::function<void(grpc::Status)> done) {
        (connection.stub.async()->*method)(context, &request, response, std::move(done));
      },
      std::move(answered));
}

void GrpcAgentClient::Prepare(const std::string& agent_address, const PrepareParts& request,
                              Answered<v1::PrepareResponse> answered) {
  Ask<v1::PrepareResponse>(
      agent_address, absl::InfiniteFuture(),
      [encoded = Encoded(request)](Connection& connection, grpc::ClientContext* context,
                                   v1::PrepareResponse* response, std::function<void(grpc::Status)> done) {
        connection.prepare.UnaryCall(context, kPrepareMethod, {}, &encoded, response, std::move(done));
      },
      std::move(answered));
}

std::unique_ptr<RunningTask> GrpcAgentClient::Start(const std::string& agent_address,
                                                    const v1::StartRequest& request, absl::Duration patience,
                                                    TaskListener listener) {
  const std::shared_ptr<Connection> connection = UsableConnectionTo(agent_address);
  const std::shared_ptr<v1::Agent::Stub> stub(connection, &connection->stub);
  return std::make_unique<TaskStream>(timers_, stub, request, patience, std::move(listener));
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

void GrpcAgentClient::TraceTask(const std::string& agent_address, const v1::TraceTaskRequest& request,
                                absl::Time deadline, Answered<v1::TraceTaskResponse> answered) {
  Ask<v1::TraceTaskRequest, v1::TraceTaskResponse>(agent_address, &Async::TraceTask, request, deadline,
                                                   std::move(answered));
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
