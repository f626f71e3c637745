#include "coordinator/web/in_process_call.h"

#include <grpcpp/grpcpp.h>

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "coordinator/rpc/audit.h"
#include "coordinator/rpc/caller_metadata.h"
#include "proto/medley/v1/coordinator.grpc.pb.h"

namespace medley {
namespace {

// Answers with who calls, and until when they may be answered.
class Echo final : public v1::Coordinator::Service {
  grpc::Status GetJob(grpc::ServerContext* context, const v1::GetJobRequest* request, v1::Job* job) override {
    if (request->job_id().empty()) return {grpc::StatusCode::NOT_FOUND, "no job"};
    job->set_id(request->job_id());
    job->set_state_reason(CallerOf(*context) + " " +
                          absl::FormatTime(CallerUntil(*context), absl::UTCTimeZone()));
    return grpc::Status::OK;
  }
};

struct Site {
  Site() {
    grpc::ServerBuilder builder;
    builder.RegisterService(&service);
    server = builder.BuildAndStart();
  }
  ~Site() { server->Shutdown(); }
  InProcessCall GetJob(const std::string& id, const std::string& caller, absl::Time until) {
    v1::GetJobRequest request;
    request.set_job_id(id);
    return InProcessCall(server->InProcessChannel({}),
                         *v1::GetJobRequest::descriptor()
                              ->file()
                              ->FindServiceByName("Coordinator")
                              ->FindMethodByName("GetJob"),
                         caller, until, request);
  }

  Echo service;
  std::unique_ptr<grpc::Server> server;
};

TEST_CASE("the service is told who asks, and until when their certificate is in force") {
  Site site;
  for (const auto& [until, text] :
       {std::pair(absl::FromUnixSeconds(1'800'000'000), "2027-01-15T08:00:00+00:00"),
        {absl::InfiniteFuture(), "infinite-future"}}) {
    InProcessCall call = site.GetJob("a", "se\nñor", until);
    const auto answer = call.Next(nullptr);
    REQUIRE(answer != nullptr);
    CHECK(static_cast<const v1::Job&>(*answer).state_reason() == absl::StrCat("se\nñor ", text));
    CHECK(call.Next(nullptr) == nullptr);
    CHECK(call.Finish().ok());
  }
}

TEST_CASE("who comes from elsewhere is not believed to be whom it names") {
  Site site;
  // Anybody can send metadata; this channel stands for one from outside.
  const auto stub = v1::Coordinator::NewStub(site.server->InProcessChannel({}));
  v1::GetJobRequest request;
  request.set_job_id("a");
  for (const char* proof : {"", "0", "medley-in-process"}) {
    grpc::ClientContext context;
    context.AddMetadata(kCallerMetadata, "alice");
    context.AddMetadata(kInProcessMetadata, proof);
    v1::Job job;
    REQUIRE(stub->GetJob(&context, request, &job).ok());
    CHECK(job.state_reason() == " infinite-future");
  }
}

TEST_CASE("an error comes in the place of the answer") {
  Site site;
  InProcessCall call = site.GetJob("", "", absl::InfiniteFuture());
  CHECK(call.Next(nullptr) == nullptr);
  const absl::Status status = call.Finish();
  CHECK(absl::IsNotFound(status));
  CHECK(status.message() == "no job");
}

}  // namespace
}  // namespace medley
