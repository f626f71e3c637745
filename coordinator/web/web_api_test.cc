#include "coordinator/web/web_api.h"

#include <grpcpp/grpcpp.h>
#include <sched.h>

#include <atomic>
#include <catch2/catch.hpp>

#include "absl/synchronization/notification.h"
#include "proto/medley/v1/coordinator.grpc.pb.h"

namespace medley {
namespace {

// Compares plans for as long as somebody waits.
class Comparing final : public v1::Coordinator::Service {
 public:
  grpc::Status GetPlan(grpc::ServerContext* context, const v1::GetPlanRequest*, v1::PlanReport*) override {
    begun = true;
    while (!context->IsCancelled()) sched_yield();
    ended.Notify();
    return {grpc::StatusCode::CANCELLED, "nobody waits"};
  }

  std::atomic<bool> begun = false;
  absl::Notification ended;
};

TEST_CASE("a call ends when who asks has gone, or the server stops") {
  Comparing comparing;
  grpc::ServerBuilder builder;
  builder.RegisterService(&comparing);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  WebApi api(*server, [](const Identity&, const std::string&, const absl::Status&) {});
  const bool stops = GENERATE(false, true);
  CAPTURE(stops);
  const WebAnswer answer = api.Answer({.method = "POST",
                                       .path = "/api/v1/GetPlan",
                                       .content_type = "application/json",
                                       .body = R"({"job_id": "a"})",
                                       .caller = {.role = v1::ROLE_ADMIN},
                                       .is_open = [&] {
                                         if (stops && comparing.begun) api.Stop();
                                         return stops || !comparing.begun;
                                       }});
  CHECK_THAT(answer.body, Catch::Contains("CANCELLED"));
  CHECK(comparing.ended.WaitForNotificationWithTimeout(absl::Minutes(1)));
  server->Shutdown();
}

}  // namespace
}  // namespace medley
