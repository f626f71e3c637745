#pragma once
#include <grpcpp/server.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/medley/v1/agent.grpc.pb.h"
#include "runtime/base/mutex.h"
#include "tests/perf/coordinator_process.h"

namespace medley {

inline constexpr char kSimulatedKind[] = "simulated";  // of their devices

// Agents at as many addresses of this machine. Their profiles and links are made up, and their training ends at once.
class SimulatedAgents final : public v1::Agent::CallbackService {
 public:
  // With a certificate: that of agents of any name.
  SimulatedAgents(int count, const std::optional<Certificates>& certificates);
  ~SimulatedAgents() override;
  std::string AddressOf(int agent) const { return absl::StrCat("127.0.0.1:", ports_[agent]); }

  // When each that trains had read what it is to do (Unix seconds), and how long the messages were.
  std::vector<double> read_at_seconds();
  size_t message_bytes();

  grpc::ServerUnaryReactor* Prepare(grpc::CallbackServerContext* context, const v1::PrepareRequest* request,
                                    v1::PrepareResponse* response) override;
  grpc::ServerWriteReactor<v1::WorkerEvent>* Start(grpc::CallbackServerContext* context,
                                                   const v1::StartRequest* request) override;
  grpc::ServerUnaryReactor* Stop(grpc::CallbackServerContext* context, const v1::StopRequest* request,
                                 v1::StopResponse* response) override;

 private:
  std::vector<int> ports_;
  std::unique_ptr<grpc::Server> server_;
  Mutex mutex_;
  std::map<std::string, std::vector<v1::WorkerEvent>> events_ ABSL_GUARDED_BY(mutex_);  // by task
  std::vector<double> read_at_seconds_ ABSL_GUARDED_BY(mutex_);
  size_t message_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace medley
