#include "coordinator/rpc/services_under_test.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/base/clock.h"
#include "runtime/wire/grpc_channel.h"
#include "runtime/wire/grpc_status.h"

namespace medley {

std::unique_ptr<grpc::ClientContext> Patient() {
  auto context = std::make_unique<grpc::ClientContext>();
  context->set_deadline(ToSystemClock(Now() + kPatience));
  return context;
}

Site::Site(std::shared_ptr<grpc::ServerCredentials> shown, std::shared_ptr<grpc::ChannelCredentials> caller) {
  auto created =
      Orchestrator::Create({.lease = absl::Hours(1), .settle = absl::ZeroDuration()}, *store, agents);
  INFO(created.status().ToString());
  REQUIRE(created.ok());
  orchestrator = *std::move(created);
  service = std::make_unique<CoordinatorService>(*orchestrator, *store, joining, audit, [this] {
    return absl::Now() + absl::Hours(hours_later.load());
  });
  registry_service = std::make_unique<RegistryService>(*orchestrator, joining, audit);
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", shown, &port);
  builder.RegisterService(service.get());
  builder.RegisterService(registry_service.get());
  server = builder.BuildAndStart();
  REQUIRE(server != nullptr);
  const auto channel = OpenChannel(absl::StrCat("127.0.0.1:", port), {.credentials = caller});
  coordinator = v1::Coordinator::NewStub(channel);
  registry = v1::Registry::NewStub(channel);
}

Site::~Site() {
  service->Stop();
  server->Shutdown(ToSystemClock(Now() + kPatience));
  orchestrator.reset();
}

v1::RegisterResponse Site::Register(const v1::RegisterRequest& node) {
  v1::RegisterResponse response;
  const grpc::Status status = Call(&v1::Registry::Stub::Register, node, response);
  INFO(status.error_message());
  REQUIRE(status.ok());
  return response;
}

v1::Job Site::Submit(const v1::JobSpec& spec, const std::string& request_id) {
  v1::SubmitJobRequest request;
  *request.mutable_spec() = spec;
  request.set_request_id(request_id);
  v1::SubmitJobResponse response;
  const grpc::Status status = Call(&v1::Coordinator::Stub::SubmitJob, request, response);
  INFO(status.error_message());
  REQUIRE(status.ok());
  return response.job();
}

v1::Job Site::Get(const std::string& id) {
  v1::GetJobRequest request;
  request.set_job_id(id);
  v1::Job job;
  const grpc::Status status = Call(&v1::Coordinator::Stub::GetJob, request, job);
  INFO(status.error_message());
  REQUIRE(status.ok());
  return job;
}

v1::Job Site::Await(const std::string& id, v1::JobState state) {
  const auto context = Patient();
  v1::WatchJobRequest request;
  request.set_job_id(id);
  const auto updates = coordinator->WatchJob(context.get(), request);
  v1::JobUpdate update;
  while (updates->Read(&update)) {
    if (update.job().state() != state) continue;
    context->TryCancel();
    while (updates->Read(&update)) continue;
    updates->Finish();
    return Get(id);
  }
  const grpc::Status status = updates->Finish();
  FAIL(id << " is " << v1::JobState_Name(Get(id).state()) << ", not " << v1::JobState_Name(state) << ": "
          << status.error_message());
  return {};
}

void CheckRefused(const grpc::Status& status, grpc::StatusCode code, const std::vector<std::string>& words) {
  CAPTURE(status.error_message());
  CHECK(status.error_code() == code);
  for (const std::string& word : words) CHECK_THAT(status.error_message(), Catch::Contains(word));
}

grpc::Status Watch(Site& site, const v1::WatchJobRequest& request) {
  const auto context = Patient();
  const auto updates = site.coordinator->WatchJob(context.get(), request);
  v1::JobUpdate update;
  while (updates->Read(&update)) continue;
  return updates->Finish();
}

v1::TraceStepsRequest OfSteps(uint32_t steps, const std::string& job_id) {
  v1::TraceStepsRequest request;
  request.set_job_id(job_id);
  request.set_steps(steps);
  return request;
}

}  // namespace medley
