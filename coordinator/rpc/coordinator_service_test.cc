// What holds for every call and for streams: what is refused, ids of calls, and when a stream ends.
#include "coordinator/rpc/coordinator_service.h"

#include <catch2/catch.hpp>
#include <functional>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "coordinator/rpc/services_under_test.h"
#include "coordinator/rpc/stream_quota.h"
#include "runtime/base/clock.h"
#include "runtime/security/credentials.h"
#include "runtime/security/test_certificates.h"

namespace medley {
namespace {

using Catch::Contains;
using Code = grpc::StatusCode;

// Every rpc that is about a job, with the job's id.
std::vector<std::pair<std::string, std::function<grpc::Status(Site&, const std::string&)>>> RpcsOfAJob() {
  using Stub = v1::Coordinator::Stub;
  const auto of = [](auto rpc, auto request) {
    return [rpc, request](Site& site, const std::string& id) mutable {
      request.set_job_id(id);
      return site.Try(rpc, request);
    };
  };
  return {{"GetJob", of(&Stub::GetJob, v1::GetJobRequest())},
          {"WatchJob",
           [](Site& site, const std::string& id) { return Watch(site, About<v1::WatchJobRequest>(id)); }},
          {"CancelJob", of(&Stub::CancelJob, v1::CancelJobRequest())},
          {"ResumeJob", of(&Stub::ResumeJob, v1::ResumeJobRequest())},
          {"ReplanJob", of(&Stub::ReplanJob, v1::ReplanJobRequest())},
          {"HoldJob", of(&Stub::HoldJob, v1::HoldJobRequest())},
          {"DeleteJob", of(&Stub::DeleteJob, v1::DeleteJobRequest())},
          {"GetPlan", of(&Stub::GetPlan, v1::GetPlanRequest())},
          {"GetTrace", of(&Stub::GetTrace, v1::GetTraceRequest())},
          {"TraceSteps", of(&Stub::TraceSteps, OfSteps(1))},
          {"ListSteps", of(&Stub::ListSteps, v1::ListStepsRequest())},
          {"ListLogs", of(&Stub::ListLogs, v1::ListLogsRequest())}};
}

TEST_CASE(
    "a job that is not there is NOT_FOUND by its id, a request without an id is refused, whatever is asked") {
  Site site;
  for (const auto& [name, rpc] : RpcsOfAJob()) {
    CAPTURE(name);
    CheckRefused(rpc(site, "nobody-7"), Code::NOT_FOUND, {"nobody-7"});
    CheckRefused(rpc(site, ""), Code::INVALID_ARGUMENT, {"job_id"});
    CheckRefused(rpc(site, std::string(129, 'x')), Code::INVALID_ARGUMENT, {"job_id", "128"});
  }
}

TEST_CASE("a client that keeps all its watches open is refused another, and gets one for one that it ends") {
  Site site;
  const v1::WatchJobRequest request = About<v1::WatchJobRequest>(site.Submit(FakeJob("watched")).id());
  struct Open {
    std::unique_ptr<grpc::ClientContext> context = Patient();
    std::unique_ptr<grpc::ClientReader<v1::JobUpdate>> updates;
  };
  std::vector<Open> open(StreamQuota::kMostOfClient);
  v1::JobUpdate update;
  const auto begin = [&](Open& one) {
    one.context = Patient();
    one.updates = site.coordinator->WatchJob(one.context.get(), request);
    return one.updates->Read(&update);
  };
  for (Open& one : open) REQUIRE(begin(one));
  CheckRefused(Watch(site, request), Code::RESOURCE_EXHAUSTED, {"200 streams open"});
  open.back().context->TryCancel();
  open.back().updates->Finish();
  // The server ends the stream once it has heard of that.
  while (!begin(open.back())) REQUIRE(open.back().updates->Finish().error_code() == Code::RESOURCE_EXHAUSTED);
  for (Open& one : open) one.context->TryCancel();
  for (Open& one : open) one.updates->Finish();
}

TEST_CASE("what a request's rules refuse is INVALID_ARGUMENT with the field, and changes nothing") {
  using Stub = v1::Coordinator::Stub;
  Site site;
  site.Register(FakeNode("a", 2));
  CheckRefused(site.Try(&Stub::SubmitJob, v1::SubmitJobRequest()), Code::INVALID_ARGUMENT, {"spec"});
  CheckRefused(site.Try(&Stub::PlanJob, v1::PlanJobRequest()), Code::INVALID_ARGUMENT, {"spec"});
  v1::SubmitJobRequest submit;
  *submit.mutable_spec() = FakeJob("wrong");
  submit.set_request_id(std::string(129, 'x'));
  CheckRefused(site.Try(&Stub::SubmitJob, submit), Code::INVALID_ARGUMENT, {"request_id", "128"});
  submit.clear_request_id();
  submit.mutable_spec()->mutable_batch()->set_sequences(2000000);
  CheckRefused(site.Try(&Stub::SubmitJob, submit), Code::INVALID_ARGUMENT,
               {"batch.sequences", "2000000", "1000000"});
  v1::PlanJobRequest plan;
  *plan.mutable_spec() = submit.spec();
  CheckRefused(site.Try(&Stub::PlanJob, plan), Code::INVALID_ARGUMENT,
               {"batch.sequences", "2000000", "1000000"});

  v1::ListJobsRequest jobs;
  jobs.set_limit(100001);
  CheckRefused(site.Try(&Stub::ListJobs, jobs), Code::INVALID_ARGUMENT, {"limit", "100001", "100000"});
  v1::ListLogsRequest logs = About<v1::ListLogsRequest>("any");
  logs.set_limit(100001);
  CheckRefused(site.Try(&Stub::ListLogs, logs), Code::INVALID_ARGUMENT, {"limit", "100001", "100000"});
  v1::ListStepsRequest steps = About<v1::ListStepsRequest>("any");
  steps.set_limit(100001);
  CheckRefused(site.Try(&Stub::ListSteps, steps), Code::INVALID_ARGUMENT, {"limit", "100001", "100000"});
  v1::ListKernelsRequest kernels;
  kernels.set_node(std::string(129, 'x'));
  CheckRefused(site.Try(&Stub::ListKernels, kernels), Code::INVALID_ARGUMENT, {"node", "128"});
  v1::ForgetNodeRequest forget;
  CheckRefused(site.Try(&Stub::ForgetNode, forget), Code::INVALID_ARGUMENT, {"node"});
  v1::ExplainAllReduceRequest explain;
  explain.set_bytes(1024);
  CheckRefused(site.Try(&Stub::ExplainAllReduce, explain), Code::INVALID_ARGUMENT, {"devices"});
  explain.add_devices("a/cpu0");
  explain.set_bytes(3);
  CheckRefused(site.Try(&Stub::ExplainAllReduce, explain), Code::INVALID_ARGUMENT, {"bytes", "3"});

  CheckRefused(site.Try(&v1::Registry::Stub::Register, v1::RegisterRequest()), Code::INVALID_ARGUMENT,
               {"node"});
  v1::RegisterRequest elsewhere = FakeNode("a");
  elsewhere.mutable_node()->set_site(std::string(129, 'x'));
  CheckRefused(site.Try(&v1::Registry::Stub::Register, elsewhere), Code::INVALID_ARGUMENT, {"site", "128"});
  CheckRefused(site.Try(&v1::Registry::Stub::Renew, v1::RenewRequest()), Code::INVALID_ARGUMENT, {"node"});
  CheckRefused(site.Try(&v1::Registry::Stub::Deregister, v1::DeregisterRequest()), Code::INVALID_ARGUMENT,
               {"node"});

  v1::ListJobsResponse all;
  REQUIRE(site.Call(&Stub::ListJobs, v1::ListJobsRequest(), all).ok());
  CHECK(all.jobs_size() == 0);
}

TEST_CASE("a request that is repeated under its id answers with the same job, and not for another spec") {
  Site site;
  const v1::Job first = site.Submit(FakeJob("once"), "the-request");
  CHECK(site.Submit(FakeJob("once"), "the-request").id() == first.id());
  v1::SubmitJobRequest other;
  *other.mutable_spec() = FakeJob("other");
  other.set_request_id("the-request");
  const grpc::Status refused = site.Try(&v1::Coordinator::Stub::SubmitJob, other);
  CHECK_FALSE(refused.ok());
  CHECK_THAT(refused.error_message(),
             Contains("request_id") && Contains("the-request") && Contains(first.id()));
  v1::ListJobsResponse jobs;
  REQUIRE(site.Call(&v1::Coordinator::Stub::ListJobs, v1::ListJobsRequest(), jobs).ok());
  CHECK(jobs.jobs_size() == 1);
}

TEST_CASE("a call has the id that it brings or a new one: in its answer and in the audit") {
  Site site;
  const v1::Job job = site.Submit(FakeJob("once"), "");
  v1::HoldJobRequest hold;
  hold.set_job_id("no-such-job");
  for (const std::string given : {"my.id-1", "not an id", ""}) {
    CAPTURE(given);
    const auto context = Patient();
    if (!given.empty()) context->AddMetadata("x-request-id", given);
    v1::Job answer;
    CHECK(site.coordinator->HoldJob(context.get(), hold, &answer).error_code() == Code::NOT_FOUND);
    const auto& metadata = context->GetServerTrailingMetadata();
    const auto found = metadata.find("x-request-id");
    REQUIRE(found != metadata.end());
    const std::string id(found->second.data(), found->second.size());
    if (given == "my.id-1") {
      CHECK(id == given);
    } else {
      CHECK(id != given);
      CHECK(id.size() == 16);
    }
    const auto records = site.store->ListAudit(10);
    REQUIRE(records.ok());
    CHECK(records->back().method() == "HoldJob");
    CHECK(records->back().request_id() == id);
  }
}

TEST_CASE("streams that are open end when the coordinator stops, and say so") {
  Site site;
  const std::string id = site.Submit(FakeJob("waits")).id();
  const auto context = Patient();
  const auto updates = site.coordinator->WatchJob(context.get(), About<v1::WatchJobRequest>(id));
  v1::JobUpdate update;
  REQUIRE(updates->Read(&update));
  site.service->Stop();
  while (updates->Read(&update)) continue;
  CheckRefused(updates->Finish(), Code::UNAVAILABLE, {"stopping"});
}

// A certificate's file is in force for an hour.
TEST_CASE("a stream does not outlive the certificate that its caller showed") {
  const TestCertificates certificates;
  Site site(ServerTls(certificates.Issue(v1::ROLE_COORDINATOR), nullptr),
            ChannelTls(certificates.Issue(v1::ROLE_ADMIN), v1::ROLE_COORDINATOR));
  const std::string id = site.Submit(FakeJob("waits")).id();
  const auto context = Patient();
  const auto updates = site.coordinator->WatchJob(context.get(), About<v1::WatchJobRequest>(id));
  v1::JobUpdate update;
  REQUIRE(updates->Read(&update));
  site.hours_later = 2;
  while (updates->Read(&update)) continue;
  CheckRefused(updates->Finish(), Code::UNAVAILABLE, {"the certificate that was shown was in force until"});
}

TEST_CASE("a dry run that nobody waits for any more gives its devices back") {
  Site site;
  site.Register(FakeNode("a"));
  // Measuring does not end before it is stopped.
  site.agents.SetProbe([](FakeWorker& worker) {
    worker.AwaitEnd();
    return absl::CancelledError("stopped");
  });
  site.Register(FakeNode("b"));
  v1::MeasureLinksRequest measure;
  measure.add_devices("a/cpu0");
  measure.add_devices("b/cpu0");
  grpc::ClientContext context;
  grpc::Status status;
  std::thread caller([&] {
    v1::ListLinksResponse links;
    const auto reader = site.coordinator->MeasureLinks(&context, measure);
    while (reader->Read(&links)) continue;
    status = reader->Finish();
  });
  const auto in_use = [&] {
    for (const v1::Node& node : site.orchestrator->Nodes()) {
      if (!node.jobs().empty()) return true;
    }
    return false;
  };
  const auto await = [&](bool used) {
    const absl::Time deadline = Now() + kPatience;
    while (in_use() != used && Now() < deadline) absl::SleepFor(absl::Milliseconds(5));  // between looks
    return in_use() == used;
  };
  CHECK(await(true));
  context.TryCancel();
  caller.join();
  CHECK(status.error_code() == Code::CANCELLED);
  CHECK(await(false));
}

}  // namespace
}  // namespace medley
