#include "coordinator/rpc/coordinator_service.h"

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "coordinator/orchestrator/fake_agents.h"
#include "coordinator/rpc/registry_service.h"
#include "coordinator/rpc/stream_quota.h"
#include "coordinator/store/store_under_test.h"
#include "runtime/base/clock.h"
#include "runtime/security/credentials.h"
#include "runtime/security/test_certificates.h"
#include "runtime/wire/grpc_channel.h"
#include "runtime/wire/grpc_status.h"

namespace medley {
namespace {

using Catch::Contains;
using Code = grpc::StatusCode;

constexpr absl::Duration kPatience = absl::Minutes(1);

// The context of a call that must not take longer than kPatience.
std::unique_ptr<grpc::ClientContext> Patient() {
  auto context = std::make_unique<grpc::ClientContext>();
  context->set_deadline(ToSystemClock(Now() + kPatience));
  return context;
}

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
                std::shared_ptr<grpc::ChannelCredentials> caller = nullptr) {
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
  ~Site() {
    service->Stop();
    server->Shutdown(ToSystemClock(Now() + kPatience));
    orchestrator.reset();
  }

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

  v1::RegisterResponse Register(const v1::RegisterRequest& node) {
    v1::RegisterResponse response;
    const grpc::Status status = Call(&v1::Registry::Stub::Register, node, response);
    INFO(status.error_message());
    REQUIRE(status.ok());
    return response;
  }
  v1::Job Submit(const v1::JobSpec& spec, const std::string& request_id = "") {
    v1::SubmitJobRequest request;
    *request.mutable_spec() = spec;
    request.set_request_id(request_id);
    v1::SubmitJobResponse response;
    const grpc::Status status = Call(&v1::Coordinator::Stub::SubmitJob, request, response);
    INFO(status.error_message());
    REQUIRE(status.ok());
    return response.job();
  }
  v1::Job Get(const std::string& id) {
    v1::GetJobRequest request;
    request.set_job_id(id);
    v1::Job job;
    const grpc::Status status = Call(&v1::Coordinator::Stub::GetJob, request, job);
    INFO(status.error_message());
    REQUIRE(status.ok());
    return job;
  }
  // The job in `state`, as a watcher is told of it.
  v1::Job Await(const std::string& id, v1::JobState state) {
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
};

// A request about the job.
template <typename Request>
Request About(const std::string& job_id) {
  Request request;
  request.set_job_id(job_id);
  return request;
}

void CheckRefused(const grpc::Status& status, Code code, const std::vector<std::string>& words) {
  CAPTURE(status.error_message());
  CHECK(status.error_code() == code);
  for (const std::string& word : words) CHECK_THAT(status.error_message(), Contains(word));
}

grpc::Status Watch(Site& site, const v1::WatchJobRequest& request) {
  const auto context = Patient();
  const auto updates = site.coordinator->WatchJob(context.get(), request);
  v1::JobUpdate update;
  while (updates->Read(&update)) continue;
  return updates->Finish();
}

v1::TraceStepsRequest OfSteps(uint32_t steps, const std::string& job_id = "") {
  v1::TraceStepsRequest request;
  request.set_job_id(job_id);
  request.set_steps(steps);
  return request;
}

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

TEST_CASE("a job is submitted, watched to its end, and listed with all that it did") {
  using Stub = v1::Coordinator::Stub;
  Site site;
  site.Register(FakeNode("a", 2));
  const v1::Job submitted = site.Submit(FakeJob("tiny"));
  CHECK(submitted.spec().name() == "tiny");

  const auto context = Patient();
  const auto updates = site.coordinator->WatchJob(context.get(), About<v1::WatchJobRequest>(submitted.id()));
  v1::JobUpdate update;
  std::vector<uint32_t> steps;
  v1::Job last;
  while (updates->Read(&update)) {
    CHECK(update.job().id() == submitted.id());
    for (const v1::StepMetrics& step : update.steps()) steps.push_back(step.step());
    last = update.job();
  }
  CHECK(updates->Finish().ok());
  CHECK(last.state() == v1::JOB_STATE_DONE);
  CHECK(steps == std::vector<uint32_t>{1, 2, 3});
  CHECK(site.Get(submitted.id()).state() == v1::JOB_STATE_DONE);

  // From a step on.
  v1::WatchJobRequest watch = About<v1::WatchJobRequest>(submitted.id());
  watch.set_after_step(2);
  const auto later_context = Patient();
  const auto later = site.coordinator->WatchJob(later_context.get(), watch);
  REQUIRE(later->Read(&update));
  REQUIRE(update.steps_size() == 1);
  CHECK(update.steps(0).step() == 3);
  CHECK_FALSE(later->Read(&update));
  CHECK(later->Finish().ok());

  v1::ListStepsResponse listed;
  REQUIRE(site.Call(&Stub::ListSteps, About<v1::ListStepsRequest>(submitted.id()), listed).ok());
  CHECK(listed.steps_size() == 3);
  v1::ListStepsRequest some = About<v1::ListStepsRequest>(submitted.id());
  some.set_after_step(1);
  REQUIRE(site.Call(&Stub::ListSteps, some, listed).ok());
  REQUIRE(listed.steps_size() == 2);
  CHECK(listed.steps(0).step() == 2);
  some.set_after_step(0);
  some.set_limit(1);
  REQUIRE(site.Call(&Stub::ListSteps, some, listed).ok());
  REQUIRE(listed.steps_size() == 1);
  CHECK(listed.steps(0).step() == 3);  // the newest

  v1::ListLogsResponse logs;
  REQUIRE(site.Call(&Stub::ListLogs, About<v1::ListLogsRequest>(submitted.id()), logs).ok());
  REQUIRE(logs.lines_size() >= 5);
  CHECK(logs.lines(logs.lines_size() - 1).text() == "done");
  for (int i = 1; i < logs.lines_size(); ++i) CHECK(logs.lines(i).number() > logs.lines(i - 1).number());
  v1::ListLogsRequest few = About<v1::ListLogsRequest>(submitted.id());
  few.set_limit(2);
  v1::ListLogsResponse newest;
  REQUIRE(site.Call(&Stub::ListLogs, few, newest).ok());
  REQUIRE(newest.lines_size() == 2);
  CHECK(newest.lines(1).text() == "done");
  few.set_limit(0);
  few.set_after_line(logs.lines(1).number());
  REQUIRE(site.Call(&Stub::ListLogs, few, newest).ok());
  CHECK(newest.lines_size() == logs.lines_size() - 2);

  v1::PlanReport plan;
  REQUIRE(site.Call(&Stub::GetPlan, About<v1::GetPlanRequest>(submitted.id()), plan).ok());
  CHECK(plan.plan().units_size() > 0);
  CHECK(plan.compared());
  CHECK(plan.rejected_size() > 0);
  CHECK_FALSE(plan.has_predicted_step());
  // Asked for, it is told beside what is kept of the job, and is not kept itself.
  v1::GetPlanRequest with_step = About<v1::GetPlanRequest>(submitted.id());
  with_step.set_with_predicted_step(true);
  REQUIRE(site.Call(&Stub::GetPlan, with_step, plan).ok());
  CHECK(plan.compared());
  REQUIRE(plan.predicted_step().lanes_size() > 0);
  double last_seconds = 0;
  for (const v1::PredictedInstruction& instruction : plan.predicted_step().lanes(0).instructions())
    last_seconds = std::max(last_seconds, instruction.end_seconds());
  CHECK(last_seconds == Approx(plan.predicted_step_seconds()));
  v1::Job kept;
  REQUIRE(site.Call(&Stub::GetJob, About<v1::GetJobRequest>(submitted.id()), kept).ok());
  CHECK_FALSE(kept.plan().has_predicted_step());
  CheckRefused(site.Try(&Stub::GetTrace, About<v1::GetTraceRequest>(submitted.id())),
               Code::FAILED_PRECONDITION, {submitted.id(), "traced"});

  v1::ListJobsResponse jobs;
  const std::string second = site.Submit(FakeJob("second")).id();
  REQUIRE(site.Call(&Stub::ListJobs, v1::ListJobsRequest(), jobs).ok());
  REQUIRE(jobs.jobs_size() == 2);
  CHECK(jobs.jobs(0).id() == second);  // the newest first
  v1::ListJobsRequest one;
  one.set_limit(1);
  REQUIRE(site.Call(&Stub::ListJobs, one, jobs).ok());
  CHECK(jobs.jobs_size() == 1);
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

TEST_CASE("what a job's state forbids is FAILED_PRECONDITION, and what has happened already is repeated") {
  using Stub = v1::Coordinator::Stub;
  Site site;
  // Queued: there is no device.
  const std::string id = site.Submit(FakeJob("job")).id();
  CheckRefused(site.Try(&Stub::GetPlan, About<v1::GetPlanRequest>(id)), Code::FAILED_PRECONDITION,
               {id, "no plan"});
  CheckRefused(site.Try(&Stub::GetTrace, About<v1::GetTraceRequest>(id)), Code::FAILED_PRECONDITION,
               {id, "traced"});
  CheckRefused(site.Try(&Stub::TraceSteps, OfSteps(3, id)), Code::FAILED_PRECONDITION, {id, "does not run"});
  for (const uint32_t steps : {0u, 1001u})
    CheckRefused(site.Try(&Stub::TraceSteps, OfSteps(steps, id)), Code::INVALID_ARGUMENT, {"steps", "1"});
  CheckRefused(site.Try(&Stub::ReplanJob, About<v1::ReplanJobRequest>(id)), Code::FAILED_PRECONDITION, {id});
  CheckRefused(site.Try(&Stub::DeleteJob, About<v1::DeleteJobRequest>(id)), Code::FAILED_PRECONDITION, {id});
  v1::CancelJobRequest gently = About<v1::CancelJobRequest>(id);
  gently.set_after_checkpoint(true);
  CheckRefused(site.Try(&Stub::CancelJob, gently), Code::FAILED_PRECONDITION, {id, "checkpoint.directory"});
  v1::Job job;
  REQUIRE(site.Call(&Stub::ResumeJob, About<v1::ResumeJobRequest>(id), job).ok());
  CHECK(job.state() == v1::JOB_STATE_QUEUED);

  v1::HoldJobRequest hold = About<v1::HoldJobRequest>(id);
  for (const bool held : {true, true, false, false, true}) {
    hold.set_hold(held);
    REQUIRE(site.Call(&Stub::HoldJob, hold, job).ok());
    CHECK(job.held() == held);
    CHECK(job.state() == v1::JOB_STATE_QUEUED);
  }

  // Running.
  site.agents.SetTraining(TrainForEver);
  site.Register(FakeNode("a"));
  CHECK(site.Get(id).state() == v1::JOB_STATE_QUEUED);  // it is held
  hold.set_hold(false);
  REQUIRE(site.Call(&Stub::HoldJob, hold, job).ok());
  site.Await(id, v1::JOB_STATE_RUNNING);
  hold.set_hold(true);
  CheckRefused(site.Try(&Stub::HoldJob, hold), Code::FAILED_PRECONDITION, {id});
  CheckRefused(site.Try(&Stub::DeleteJob, About<v1::DeleteJobRequest>(id)), Code::FAILED_PRECONDITION, {id});
  CheckRefused(site.Try(&Stub::ReplanJob, About<v1::ReplanJobRequest>(id)), Code::FAILED_PRECONDITION,
               {id, "checkpoint.directory"});

  // Cancelled, twice; resumed; cancelled; deleted.
  REQUIRE(site.Call(&Stub::CancelJob, About<v1::CancelJobRequest>(id), job).ok());
  site.Await(id, v1::JOB_STATE_CANCELLED);
  REQUIRE(site.Call(&Stub::CancelJob, About<v1::CancelJobRequest>(id), job).ok());
  CHECK(job.state() == v1::JOB_STATE_CANCELLED);
  REQUIRE(site.Call(&Stub::ResumeJob, About<v1::ResumeJobRequest>(id), job).ok());
  CHECK(job.state() != v1::JOB_STATE_CANCELLED);
  site.Await(id, v1::JOB_STATE_RUNNING);
  REQUIRE(site.Call(&Stub::CancelJob, About<v1::CancelJobRequest>(id), job).ok());
  site.Await(id, v1::JOB_STATE_CANCELLED);
  CHECK(site.Try(&Stub::DeleteJob, About<v1::DeleteJobRequest>(id)).ok());
  CheckRefused(site.Try(&Stub::GetJob, About<v1::GetJobRequest>(id)), Code::NOT_FOUND, {id});
}

TEST_CASE("a long job is listed and watched in parts, each step once and each validation with its step") {
  using Stub = v1::Coordinator::Stub;
  Site site;
  const std::string id = site.Submit(FakeJob("long")).id();
  constexpr uint32_t kSteps = 20'000;
  std::vector<v1::StepMetrics> steps;
  std::vector<v1::ValidationMetrics> validations;
  for (uint32_t step = 1; step <= kSteps; ++step) {
    v1::StepMetrics& metrics = steps.emplace_back();
    metrics.set_step(step);
    metrics.set_loss(1.0 / step);
    metrics.set_at_seconds(step);
    metrics.set_tokens(1e15);
    metrics.set_step_seconds(0.1);
    metrics.set_gradient_norm(0.1);
    metrics.set_learning_rate(0.1);
    if (step % 1000 == 0) validations.emplace_back().set_step(step);
  }
  REQUIRE(site.store->AppendSteps(id, steps).ok());
  REQUIRE(site.store->AppendValidations(id, validations).ok());

  v1::ListStepsResponse listed;
  int parts = 0;
  REQUIRE(site.Call(&Stub::ListSteps, About<v1::ListStepsRequest>(id), listed, &parts).ok());
  CHECK(parts > 1);
  REQUIRE(listed.steps_size() == kSteps);
  bool in_order = true;
  for (uint32_t i = 0; i < kSteps; ++i) in_order = in_order && listed.steps(i).step() == i + 1;
  CHECK(in_order);
  CHECK(listed.validations_size() == 20);
  v1::ListStepsRequest since = About<v1::ListStepsRequest>(id);
  since.set_since_seconds(kSteps - 2000);
  REQUIRE(site.Call(&Stub::ListSteps, since, listed).ok());
  CHECK(listed.steps_size() == 2001);
  CHECK(listed.validations_size() == 3);

  v1::CancelJobRequest cancel = About<v1::CancelJobRequest>(id);
  v1::Job job;
  REQUIRE(site.Call(&Stub::CancelJob, cancel, job).ok());
  const auto context = Patient();
  const auto updates = site.coordinator->WatchJob(context.get(), About<v1::WatchJobRequest>(id));
  v1::JobUpdate update;
  uint32_t last = 0;
  int count = 0, validated = 0;
  while (updates->Read(&update)) {
    ++count;
    for (const v1::StepMetrics& step : update.steps()) {
      in_order = in_order && step.step() == last + 1;
      last = step.step();
    }
    for (const v1::ValidationMetrics& validation : update.validations())
      in_order = in_order && validation.step() <= last && validation.step() > last - update.steps_size();
    validated += update.validations_size();
  }
  CHECK(updates->Finish().ok());
  CHECK(in_order);
  CHECK(last == kSteps);
  CHECK(validated == 20);
  CHECK(count > 1);
}

TEST_CASE("a job that is done cannot be resumed") {
  Site site;
  site.Register(FakeNode("a"));
  const std::string id = site.Submit(FakeJob("job")).id();
  site.Await(id, v1::JOB_STATE_DONE);
  CheckRefused(site.Try(&v1::Coordinator::Stub::ResumeJob, About<v1::ResumeJobRequest>(id)),
               Code::FAILED_PRECONDITION, {id, "done"});
}

TEST_CASE("a plan is made without starting anything, and says what there is none for") {
  using Stub = v1::Coordinator::Stub;
  Site site;
  v1::PlanJobRequest request;
  *request.mutable_spec() = FakeJob("planned");
  CheckRefused(site.Try(&Stub::PlanJob, request), Code::FAILED_PRECONDITION, {"no agent is registered"});
  site.Register(FakeNode("a", 2));
  v1::PlanReport report;
  REQUIRE(site.Call(&Stub::PlanJob, request, report).ok());
  CHECK(report.plan().units_size() > 0);
  CHECK(report.predicted_step_seconds() > 0);
  CHECK_FALSE(report.has_predicted_step());
  request.set_with_predicted_step(true);
  REQUIRE(site.Call(&Stub::PlanJob, request, report).ok());
  REQUIRE(report.predicted_step().lanes_size() > 0);
  CHECK(report.predicted_step().lanes(0).instructions_size() > 0);
  // Devices have the prices that their agents gave.
  CHECK(report.price_per_hour() == 0);
  v1::RegisterRequest priced = FakeNode("b", 1);
  priced.mutable_node()->mutable_devices(0)->set_price_per_hour(2);
  site.Register(priced);
  request.set_with_pareto(true);
  REQUIRE(site.Call(&Stub::PlanJob, request, report).ok());
  REQUIRE(report.pareto_size() > 0);
  CHECK(report.pareto(0).chosen());
  CHECK(report.pareto(report.pareto_size() - 1).price_per_hour() == 0);
  request.mutable_spec()->mutable_constraints()->set_most_price_per_hour(1);
  request.set_with_pareto(false);
  REQUIRE(site.Call(&Stub::PlanJob, request, report).ok());
  CHECK(report.price_per_hour() == 0);
  CHECK(report.pareto_size() == 0);
  request.mutable_spec()->mutable_constraints()->set_deadline_seconds(1e-9);
  CheckRefused(site.Try(&Stub::PlanJob, request), Code::RESOURCE_EXHAUSTED,
               {"constraints.deadline_seconds: 1e-09"});
  request.mutable_spec()->clear_constraints();
  CHECK(site.agents.trainings().empty());
  v1::ListJobsResponse jobs;
  REQUIRE(site.Call(&Stub::ListJobs, v1::ListJobsRequest(), jobs).ok());
  CHECK(jobs.jobs_size() == 0);
  // A model that no device holds.
  request.mutable_spec()->mutable_model()->mutable_gpt2()->set_layers(48);
  request.mutable_spec()->mutable_model()->mutable_gpt2()->set_hidden(2048);
  request.mutable_spec()->mutable_model()->mutable_gpt2()->set_heads(16);
  CheckRefused(site.Try(&Stub::PlanJob, request), Code::RESOURCE_EXHAUSTED, {"no plan fits"});
}

TEST_CASE("a node has a lease of its incarnation, and a name of one live agent") {
  using Stub = v1::Registry::Stub;
  Site site;
  CHECK(site.Register(FakeNode("a", 1, 5)).lease_seconds() == 3600);
  v1::RenewRequest renew;
  renew.set_node("a");
  renew.set_incarnation(5);
  v1::RenewResponse renewed;
  REQUIRE(site.Call(&Stub::Renew, renew, renewed).ok());
  CHECK(renewed.lease_seconds() == 3600);
  renew.set_incarnation(6);
  CheckRefused(site.Try(&Stub::Renew, renew), Code::NOT_FOUND, {"a"});
  renew.set_node("b");
  CheckRefused(site.Try(&Stub::Renew, renew), Code::NOT_FOUND, {"b"});

  v1::RegisterRequest stranger = FakeNode("a", 1, 9);
  stranger.mutable_node()->set_agent_address("elsewhere:1");
  CheckRefused(site.Try(&Stub::Register, stranger), Code::ALREADY_EXISTS, {"a", "elsewhere:1"});
  site.Register(FakeNode("a", 1, 7));  // the same agent, started again

  // What of its tasks nobody waits for is to be stopped.
  v1::RegisterRequest with_tasks = FakeNode("a", 1, 8);
  with_tasks.add_tasks()->set_task_id("of-nobody");
  const v1::RegisterResponse answer = site.Register(with_tasks);
  CHECK(std::vector<std::string>(answer.stop_tasks().begin(), answer.stop_tasks().end()) ==
        std::vector<std::string>{"of-nobody"});
}

TEST_CASE("a node that leaves is not there, then forgotten; one that lives is not") {
  using Stub = v1::Coordinator::Stub;
  Site site;
  site.Register(FakeNode("a", 1, 5));
  v1::ForgetNodeRequest forget;
  forget.set_node("a");
  CheckRefused(site.Try(&Stub::ForgetNode, forget), Code::FAILED_PRECONDITION, {"a"});
  v1::DeregisterRequest leave;
  leave.set_node("a");
  leave.set_incarnation(4);  // another's
  REQUIRE(site.Try(&v1::Registry::Stub::Deregister, leave).ok());
  v1::ListNodesResponse nodes;
  REQUIRE(site.Call(&Stub::ListNodes, v1::ListNodesRequest(), nodes).ok());
  REQUIRE(nodes.nodes_size() == 1);
  CHECK(nodes.nodes(0).alive());
  leave.set_incarnation(5);
  REQUIRE(site.Try(&v1::Registry::Stub::Deregister, leave).ok());
  REQUIRE(site.Call(&Stub::ListNodes, v1::ListNodesRequest(), nodes).ok());
  for (const v1::Node& node : nodes.nodes()) CHECK_FALSE(node.alive());
  v1::ListKernelsRequest kernels;
  kernels.set_node("a");
  CheckRefused(site.Try(&Stub::ListKernels, kernels), Code::UNAVAILABLE, {"a"});
  REQUIRE(site.Try(&Stub::ForgetNode, forget).ok());
  REQUIRE(site.Call(&Stub::ListNodes, v1::ListNodesRequest(), nodes).ok());
  CHECK(nodes.nodes_size() == 0);
  CheckRefused(site.Try(&Stub::ForgetNode, forget), Code::NOT_FOUND, {"a"});
}

TEST_CASE("kernels are told by node, and of a node that does not answer why") {
  using Stub = v1::Coordinator::Stub;
  Site site;
  site.Register(FakeNode("a"));
  site.Register(FakeNode("b"));
  v1::ListKernelsResponse all;
  REQUIRE(site.Call(&Stub::ListKernels, v1::ListKernelsRequest(), all).ok());
  CHECK(all.nodes_size() == 2);
  v1::ListKernelsRequest one;
  one.set_node("b");
  REQUIRE(site.Call(&Stub::ListKernels, one, all).ok());
  REQUIRE(all.nodes_size() == 1);
  CHECK(all.nodes(0).node() == "b");
  one.set_node("nowhere");
  CheckRefused(site.Try(&Stub::ListKernels, one), Code::NOT_FOUND, {"nowhere"});
  site.agents.TakeDown("b:1");
  one.set_node("b");
  CheckRefused(site.Try(&Stub::ListKernels, one), Code::UNAVAILABLE, {"b"});
  REQUIRE(site.Call(&Stub::ListKernels, v1::ListKernelsRequest(), all).ok());
  CHECK(all.nodes_size() == 2);
}

TEST_CASE("links are measured between free devices that are there") {
  using Stub = v1::Coordinator::Stub;
  Site site;
  site.Register(FakeNode("a"));
  site.Register(FakeNode("b"));
  v1::ExplainAllReduceRequest explain;
  explain.add_devices("a/cpu0");
  explain.set_bytes(1 << 20);
  CheckRefused(site.Try(&Stub::ExplainAllReduce, explain), Code::INVALID_ARGUMENT, {"two"});
  explain.add_devices("b/cpu0");
  CheckRefused(site.Try(&Stub::ExplainAllReduce, explain), Code::FAILED_PRECONDITION,
               {"a/cpu0", "b/cpu0", "not measured"});

  v1::MeasureLinksRequest measure;
  measure.add_devices("a/cpu0");
  CheckRefused(site.Try(&Stub::MeasureLinks, measure), Code::INVALID_ARGUMENT, {"two"});
  measure.add_devices("c/cpu0");
  CheckRefused(site.Try(&Stub::MeasureLinks, measure), Code::NOT_FOUND, {"c/cpu0"});
  v1::ListLinksRequest list;
  list.add_devices("c/cpu0");
  CheckRefused(site.Try(&Stub::ListLinks, list), Code::NOT_FOUND, {"c/cpu0"});

  measure.set_devices(1, "b/cpu0");
  v1::ListLinksResponse links;
  REQUIRE(site.Call(&Stub::MeasureLinks, measure, links).ok());
  REQUIRE(links.links_size() == 1);
  REQUIRE(site.Call(&Stub::ListLinks, v1::ListLinksRequest(), links).ok());
  CHECK(links.links_size() == 1);
  v1::AllReduceExplanation explanation;
  REQUIRE(site.Call(&Stub::ExplainAllReduce, explain, explanation).ok());
  CHECK(explanation.candidates_size() > 0);

  site.agents.SetTraining(TrainForEver);
  const std::string id = site.Submit(PinnedJob("busy", {"b/cpu0"})).id();
  site.Await(id, v1::JOB_STATE_RUNNING);
  CheckRefused(site.Try(&Stub::MeasureLinks, measure), Code::FAILED_PRECONDITION, {"b/cpu0", "in use"});
  v1::Job job;
  REQUIRE(site.Call(&Stub::CancelJob, About<v1::CancelJobRequest>(id), job).ok());
  site.Await(id, v1::JOB_STATE_CANCELLED);

  v1::DeregisterRequest leave;
  leave.set_node("b");
  leave.set_incarnation(1);
  REQUIRE(site.Try(&v1::Registry::Stub::Deregister, leave).ok());
  list.set_devices(0, "b/cpu0");
  CheckRefused(site.Try(&Stub::ListLinks, list), Code::FAILED_PRECONDITION, {"b"});
}

TEST_CASE("a cluster is exported with its devices") {
  Site site;
  site.Register(FakeNode("a", 2));
  v1::ClusterSpec cluster;
  REQUIRE(site.Call(&v1::Coordinator::Stub::ExportCluster, v1::ExportClusterRequest(), cluster).ok());
  CHECK_THAT(cluster.ShortDebugString(), Contains("cpu0") && Contains("cpu1"));
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
