#pragma once
#include "agent/supervisor/kernel_reports.h"
#include "agent/supervisor/supervisor.h"
#include "proto/medley/v1/agent.grpc.pb.h"
#include "runtime/ir/link/message_protection.h"

namespace medley {

// The wire side of Supervisor and KernelReports, and nothing else: check, call, encode.
class AgentService final : public v1::Agent::Service {
 public:
  // `allowed_directories`, `least_protection`: AgentConfig's.
  AgentService(Supervisor& supervisor, KernelReports& kernels,
               std::vector<std::string> allowed_directories = {},
               MessageProtection least_protection = MessageProtection::kNone)
      : supervisor_(supervisor),
        kernels_(kernels),
        allowed_directories_(std::move(allowed_directories)),
        least_protection_(least_protection) {}

  grpc::Status Prepare(grpc::ServerContext* context, const v1::PrepareRequest* request,
                       v1::PrepareResponse* response) override;
  grpc::Status Start(grpc::ServerContext* context, const v1::StartRequest* request,
                     grpc::ServerWriter<v1::WorkerEvent>* writer) override;
  grpc::Status Stop(grpc::ServerContext* context, const v1::StopRequest* request,
                    v1::StopResponse* response) override;
  grpc::Status DescribeKernels(grpc::ServerContext* context, const v1::DescribeKernelsRequest* request,
                               v1::NodeKernels* response) override;
  grpc::Status DescribeStacks(grpc::ServerContext* context, const v1::DescribeStacksRequest* request,
                              v1::DescribeStacksResponse* response) override;
  grpc::Status TraceTask(grpc::ServerContext* context, const v1::TraceTaskRequest* request,
                         v1::TraceTaskResponse* response) override;
  grpc::Status CheckNode(grpc::ServerContext* context, const v1::CheckNodeRequest* request,
                         v1::NodeCheck* response) override;

 private:
  Supervisor& supervisor_;
  KernelReports& kernels_;
  const std::vector<std::string> allowed_directories_;
  const MessageProtection least_protection_;
};

}  // namespace medley
