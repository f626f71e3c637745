#pragma once
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/orchestrator/fake_agents.h"
#include "coordinator/rpc/coordinator_service.h"
#include "coordinator/rpc/registry_service.h"
#include "coordinator/store/store_under_test.h"

namespace medley {

inline constexpr absl::Duration kPatience = absl::Minutes(1);

// The context of a call that must not take longer than kPatience.
std::unique_ptr<grpc::ClientContext> Patient();

// A coordinator over a store and fake agents, with its two services at a free port of the loopback, and
// clients of both.
struct Site {
  TemporaryDirectory directory;
  std::unique_ptr<Store> store = OpenStore(directory);
  FakeAgents agents;
  std::unique_ptr<Orchestrator> orchestrator;
  Audit audit{*store};
  Joining joining{*store, {}};
  std::atomic<int> hours_later = 0;  // by the clock that certificates go by
  std::unique_ptr<CoordinatorService> service;
  std::unique_ptr<RegistryService> registry_service;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<v1::Coordinator::Stub> coordinator;
  std::unique_ptr<v1::Registry::Stub> registry;

  // The lease is longer than any test: nodes are lost when a test says so.
  explicit Site(std::shared_ptr<grpc::ServerCredentials> shown = grpc::InsecureServerCredentials(),
                std::shared_ptr<grpc::ChannelCredentials> caller = nullptr);
  ~Site();

  // One call: its answer is written into `response`.
  template <typename Request, typename Response>
  grpc::Status Call(grpc::Status (v1::Coordinator::Stub::*rpc)(grpc::ClientContext*, const Request&,
                                                               Response*),
                    const Request& request, Response& response) {
    return (*coordinator.*rpc)(Patient().get(), request, &response);
  }
  template <typename Request, typename Response>
  grpc::Status Call(grpc::Status (v1::Registry::Stub::*rpc)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response& response) {
    return (*registry.*rpc)(Patient().get(), request, &response);
  }
  // One whose answer comes in parts: merged, and how many they were.
  template <typename Request, typename Part>
  grpc::Status Call(std::unique_ptr<grpc::ClientReader<Part>> (v1::Coordinator::Stub::*rpc)(
                        grpc::ClientContext*, const Request&),
                    const Request& request, Part& whole, int* count = nullptr) {
    const auto context = Patient();
    const auto reader = (*coordinator.*rpc)(context.get(), request);
    whole.Clear();
    Part part;
    int parts = 0;
    for (; reader->Read(&part); ++parts) whole.MergeFrom(part);
    if (count != nullptr) *count = parts;
    return reader->Finish();
  }
  template <typename Request, typename Part>
  grpc::Status Try(std::unique_ptr<grpc::ClientReader<Part>> (v1::Coordinator::Stub::*rpc)(
                       grpc::ClientContext*, const Request&),
                   const Request& request) {
    Part whole;
    return Call(rpc, request, whole);
  }
  // The status alone.
  template <typename Stub, typename Request, typename Response>
  grpc::Status Try(grpc::Status (Stub::*rpc)(grpc::ClientContext*, const Request&, Response*),
                   const Request& request) {
    Response response;
    return Call(rpc, request, response);
  }

  v1::RegisterResponse Register(const v1::RegisterRequest& node);
  v1::Job Submit(const v1::JobSpec& spec, const std::string& request_id = "");
  v1::Job Get(const std::string& id);
  // The job in `state`, as a watcher is told of it.
  v1::Job Await(const std::string& id, v1::JobState state);
};

// A request about the job.
template <typename Request>
Request About(const std::string& job_id) {
  Request request;
  request.set_job_id(job_id);
  return request;
}

// With this code, and a message that has each of these words.
void CheckRefused(const grpc::Status& status, grpc::StatusCode code, const std::vector<std::string>& words);

// Until it ends.
grpc::Status Watch(Site& site, const v1::WatchJobRequest& request);

v1::TraceStepsRequest OfSteps(uint32_t steps, const std::string& job_id = "");

}  // namespace medley
