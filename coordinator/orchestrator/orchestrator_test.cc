#include "coordinator/orchestrator/orchestrator.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>

#include "coordinator/orchestrator/orchestrator_under_test.h"

namespace medley {
namespace {

TEST_CASE("a job goes through its life once, and what it did is on disk") {
  OrchestratorSite site;
  site.Register(FakeNode("a", 2));
  const std::string id = site.Submit(FakeJob("tiny"));
  const v1::Job job = site.Await(id, v1::JOB_STATE_DONE);
  CHECK(site.States(id) == std::vector<std::string>{"profiling", "planning", "launching", "running", "done"});
  CHECK(job.restarts() == 0);
  CHECK(job.attempt() == 1);
  CHECK(job.parameters() > 0);
  CHECK(job.plan().plan().units_size() > 0);
  CHECK(job.started_at_seconds() >= job.submitted_at_seconds());
  CHECK(job.ended_at_seconds() >= job.started_at_seconds());
  CHECK(site.AllDevicesAreFree());
  CHECK(site.store->ListSteps(id, 0)->size() == 3);
  CHECK(site.store->GetJob(id)->state() == v1::JOB_STATE_DONE);
  CHECK(site.store->GetJob(id)->last_step().loss() == 1.0);
}

TEST_CASE("a job waits for the first device to come") {
  OrchestratorSite site;
  const std::string id = site.Submit(FakeJob("early"));
  CHECK(site.orchestrator->journal().Get(id)->state() == v1::JOB_STATE_QUEUED);
  site.Register(FakeNode("a"));
  site.Await(id, v1::JOB_STATE_DONE);
}

TEST_CASE("every unit is told all addresses, its own unit, and an attempt that no launch had before") {
  OrchestratorSite site;
  site.Register(FakeNode("a", 2));
  const std::string first = site.Submit(PinnedJob("one", {"a/cpu0", "a/cpu1"}));
  site.Await(first, v1::JOB_STATE_DONE);
  site.Await(site.Submit(PinnedJob("two", {"a/cpu0", "a/cpu1"})), v1::JOB_STATE_DONE);
  std::vector<v1::PrepareRequest> tasks = site.agents.trainings();
  REQUIRE(tasks.size() == 4);
  const auto by_unit = [](const auto& a, const auto& b) { return a.train().rank() < b.train().rank(); };
  std::sort(tasks.begin(), tasks.begin() + 2, by_unit);
  CHECK(tasks[0].train().rank() == 0);
  CHECK(tasks[0].device() == "cpu0");
  CHECK(tasks[1].train().rank() == 1);
  CHECK(tasks[1].device() == "cpu1");
  CHECK(tasks[0].train().job_id() == first);
  CHECK(tasks[0].attempt() == tasks[1].attempt());
  CHECK(tasks[2].attempt() > tasks[0].attempt());
  CHECK(tasks[0].task_id() != tasks[1].task_id());
}

TEST_CASE("all units are told the same ways to sum what they hold in common, those that their job forces") {
  OrchestratorSite site;
  site.Register(FakeNode("a", 2));
  v1::JobSpec spec = PinnedJob("tree", {"a/cpu0", "a/cpu1"});
  spec.mutable_communication()->set_all_reduce(v1::ALL_REDUCE_ALGORITHM_TREE);
  site.Await(site.Submit(spec), v1::JOB_STATE_DONE);
  const std::vector<v1::PrepareRequest> tasks = site.agents.trainings();
  REQUIRE(tasks.size() == 2);
  const v1::TrainTask &first = tasks[0].train(), &second = tasks[1].train();
  REQUIRE(first.reductions_size() > 0);
  REQUIRE(first.reductions_size() == second.reductions_size());
  for (int i = 0; i < first.reductions_size(); ++i) {
    const v1::Reduction& reduction = first.reductions(i);
    CHECK(reduction.SerializeAsString() == second.reductions(i).SerializeAsString());
    CHECK(std::vector<uint32_t>(reduction.holders().begin(), reduction.holders().end()) ==
          std::vector<uint32_t>{0, 1});
    CHECK(reduction.algorithm() == v1::ALL_REDUCE_ALGORITHM_TREE);
  }
}

TEST_CASE("device kinds and links are measured once and never again") {
  OrchestratorSite site;
  site.Register(FakeNode("a", 2));
  site.Register(FakeNode("b", 1));
  site.Await(site.Submit(FakeJob("first")), v1::JOB_STATE_DONE);
  CHECK(site.agents.profiles() == 1);    // three devices of one kind
  CHECK(site.agents.probes() == 2 * 2);  // inside a, and from a to b; two ends each
  site.Await(site.Submit(FakeJob("second")), v1::JOB_STATE_DONE);
  CHECK(site.agents.profiles() == 1);
  CHECK(site.agents.probes() == 2 * 2);
  v1::JobSpec wider = FakeJob("wider");
  wider.mutable_model()->mutable_gpt2()->set_hidden(16);
  site.Await(site.Submit(wider), v1::JOB_STATE_DONE);
  CHECK(site.agents.profiles() == 2);
  CHECK(site.agents.probes() == 2 * 2);
}

TEST_CASE("a worker that dies brings its job back from the last checkpoint, once") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  std::atomic<int> launches = 0;
  site.agents.SetTraining([&](FakeWorker& worker) -> absl::Status {
    if (++launches > 1) return TrainThreeSteps(worker);
    worker.Say(StepOf(1, 3.5));
    worker.Say(CheckpointAt(1, "/checkpoints/tiny/step-1"));
    return absl::UnavailableError("the worker of a/cpu0 was killed by signal 9");
  });
  v1::JobSpec spec = FakeJob("tiny");
  spec.mutable_checkpoint()->set_directory("/nowhere/checkpoints");  // the nodes' disk: not seen from here
  const std::string id = site.Submit(spec);
  const v1::Job job = site.Await(id, v1::JOB_STATE_DONE);
  CHECK(job.restarts() == 1);
  CHECK(job.attempt() == 2);
  CHECK(job.checkpoint_step() == 1);
  CHECK(site.States(id) == std::vector<std::string>{"profiling", "planning", "launching", "running",
                                                    "recovering", "profiling", "planning", "launching",
                                                    "running", "done"});
  REQUIRE(site.agents.trainings().size() == 2);
  CHECK(site.agents.trainings()[0].train().resume_from() == "");
  CHECK(site.agents.trainings()[1].train().resume_from() == "/checkpoints/tiny/step-1");
  const std::vector<v1::LogLine> log = *site.store->ListLogs(id, 1000);
  CHECK(std::count_if(log.begin(), log.end(), [](const v1::LogLine& line) {
          return line.text() == "the plan is that of before";
        }) == 1);
}

TEST_CASE("an error that no restart can help fails the job at once and names the device") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  site.agents.SetTraining([](FakeWorker&) { return absl::InvalidArgumentError("the loss is not finite"); });
  const std::string id = site.Submit(FakeJob("tiny"));
  const v1::Job job = site.Await(id, v1::JOB_STATE_FAILED);
  CHECK_THAT(job.state_reason(), Catch::Contains("a/cpu0") && Catch::Contains("the loss is not finite"));
  CHECK(job.restarts() == 0);
  CHECK(site.agents.trainings().size() == 1);
  CHECK(site.AllDevicesAreFree());
}

TEST_CASE("a job that keeps losing its workers fails after max_restarts") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  site.agents.SetTraining([](FakeWorker&) { return absl::UnavailableError("the worker died"); });
  v1::JobSpec spec = FakeJob("unlucky");
  spec.set_max_restarts(2);
  const v1::Job job = site.Await(site.Submit(spec), v1::JOB_STATE_FAILED);
  CHECK(job.restarts() == 2);
  CHECK(site.agents.trainings().size() == 3);
  CHECK_THAT(job.state_reason(), Catch::Contains("the worker died") && Catch::Contains("max_restarts is 2"));
}

TEST_CASE(
    "when an agent is gone its job goes on with the other devices, and uses it again once it is heard of") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  site.Register(FakeNode("b"));
  site.agents.SetTraining(TrainForEver);
  const std::string id = site.Submit(FakeJob("tiny"));
  site.AwaitJob(id, [](const v1::Job& job) { return job.state() == v1::JOB_STATE_RUNNING; });
  CHECK(site.orchestrator->journal().Get(id)->plan().plan().units_size() == 2);
  site.agents.SetTraining(TrainThreeSteps);
  site.agents.TakeDown("b:1");
  const v1::Job job = site.Await(id, v1::JOB_STATE_DONE);
  CHECK(job.restarts() == 1);
  REQUIRE(job.plan().plan().units_size() == 1);
  CHECK(job.plan().plan().units(0).devices(0) == "a/cpu0");

  site.agents.BringUp("b:1");
  REQUIRE(site.Renew("b").ok());
  const v1::Job next = site.Await(site.Submit(FakeJob("next")), v1::JOB_STATE_DONE);
  CHECK(next.plan().plan().units_size() == 2);
}

TEST_CASE("an agent that cannot be reached when launching costs a restart, not the job") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  site.Register(FakeNode("b"));
  site.Await(site.Submit(FakeJob("measures")), v1::JOB_STATE_DONE);
  site.agents.TakeDown("b:1");
  const v1::Job job = site.Await(site.Submit(FakeJob("tiny")), v1::JOB_STATE_DONE);
  CHECK(job.restarts() == 1);
  CHECK(job.plan().plan().units_size() == 1);
}

TEST_CASE("an agent that was started anew gives up its job, which is launched again") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  site.agents.SetTraining(TrainForEver);
  const std::string id = site.Submit(FakeJob("tiny"));
  site.Await(id, v1::JOB_STATE_RUNNING);
  site.agents.SetTraining(TrainThreeSteps);
  site.Register(FakeNode("a", 1, /*incarnation=*/2));
  const v1::Job job = site.Await(id, v1::JOB_STATE_DONE);
  CHECK(job.restarts() == 1);
  bool told = false;
  for (const std::string& line : site.Log(id)) told |= absl::StrContains(line, "recovering: node a is lost");
  CHECK(told);
}

TEST_CASE("a job can be cancelled while it waits, prepares or runs, and stays cancelled") {
  OrchestratorSite site;
  const std::string phase = GENERATE("queued", "measuring", "launching", "running");
  CAPTURE(phase);
  std::string hung;
  if (phase == "measuring" || phase == "launching") {
    site.agents.SetPreparation([&](const v1::PrepareRequest& request) -> absl::Status {
      if (request.has_train() != (phase == "launching")) return absl::OkStatus();
      site.agents.AwaitStop(request.task_id());  // hangs, as a slow disk would, until it is stopped
      return absl::UnavailableError("was killed by signal 9");
    });
  }
  site.agents.SetTraining(TrainForEver);
  if (phase != "queued") site.Register(FakeNode("a"));
  const std::string id = site.Submit(FakeJob("tiny"));
  if (phase == "measuring") {
    site.AwaitJob(id, [](const v1::Job& job) { return absl::StrContains(job.state_reason(), "measuring"); });
  } else if (phase == "launching") {
    REQUIRE(site.agents.AwaitTrainings(1));
  } else if (phase == "running") {
    site.Await(id, v1::JOB_STATE_RUNNING);
  }
  REQUIRE(site.Cancel(id).ok());
  const v1::Job job = site.Await(id, v1::JOB_STATE_CANCELLED);
  CHECK_THAT(job.state_reason(), Catch::Contains("user"));
  CHECK(site.AllDevicesAreFree());
  CHECK(site.Cancel(id)->state() == v1::JOB_STATE_CANCELLED);
  CHECK(absl::IsNotFound(site.Cancel("nobody-1").status()));
}

// Planned for minutes: so many micro-batches.
v1::JobSpec LongPlannedJob() {
  v1::JobSpec spec = FakeJob("long");
  spec.mutable_batch()->set_sequences(60'000);
  spec.mutable_constraints()->add_micro_batch_sizes(1);
  return spec;
}

v1::PlanJobRequest DryRun(const v1::JobSpec& spec, double time_limit_seconds = 0) {
  v1::PlanJobRequest request;
  *request.mutable_spec() = spec;
  request.set_time_limit_seconds(time_limit_seconds);
  return request;
}

TEST_CASE("planning ends when its job is cancelled") {
  OrchestratorSite site;
  site.Register(FakeNode("a", 3));
  const std::string id = site.Submit(LongPlannedJob());
  site.Await(id, v1::JOB_STATE_PLANNING);
  REQUIRE(site.Cancel(id).ok());
  site.Await(id, v1::JOB_STATE_CANCELLED);
  CHECK(site.AllDevicesAreFree());
}

TEST_CASE("planning ends with the coordinator, and the job waits for the next one") {
  OrchestratorSite site;
  site.Register(FakeNode("a", 3));
  const std::string id = site.Submit(LongPlannedJob());
  site.Await(id, v1::JOB_STATE_PLANNING);
  site.orchestrator.reset();
  const v1::Job job = *site.store->GetJob(id);
  CHECK(job.state() == v1::JOB_STATE_QUEUED);
  CHECK(job.restarts() == 0);
}

TEST_CASE("a dry run ends with its client, with its coordinator, and at its time limit") {
  OrchestratorSite site;
  site.Register(FakeNode("a", 3));
  const std::string way = GENERATE("client", "coordinator", "limit");
  CAPTURE(way);
  std::atomic<bool> gone = false;
  absl::Status answer;
  std::thread call([&] {
    answer = site.orchestrator
                 ->Plan(DryRun(LongPlannedJob(), way == "limit" ? 0.05 : 0), [&] { return gone.load(); })
                 .status();
  });
  while (way != "limit" && site.agents.profiles() == 0) std::this_thread::yield();
  if (way == "client") gone = true;
  if (way == "coordinator") site.orchestrator->StopCalls();
  call.join();
  INFO(answer.ToString());
  if (way == "limit") {
    CHECK((answer.ok() || absl::IsDeadlineExceeded(answer)));
  } else {
    CHECK(absl::IsCancelled(answer));
  }
  CHECK(site.AllDevicesAreFree());
}

TEST_CASE("a run that is cancelled while no plan fits remembers the wish") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  site.Await(site.Submit(FakeJob("measures")), v1::JOB_STATE_DONE);
  v1::SubmitJobRequest request;
  *request.mutable_spec() = FakeJob("tiny");
  const std::string id = site.store->InsertJob(request.spec(), "", 1)->id();
  ClusterDeviceLocation small{.node = "a", .agent_address = "a:1", .host = "a"};
  small.device = {.description = {.name = "cpu0", .backend = "cpu", .cores = {0}, .memory_limit = {1024}},
                  .kind = "fake"};
  JobJournal journal(*site.store);
  JobRunner runner({.store = *site.store, .journal = journal, .agents = site.agents}, id, {small});
  REQUIRE(journal.Apply(id, JobEvent::kDevicesGranted, "").ok());
  CHECK_FALSE(runner.cancelled());
  runner.Abort(JobEvent::kCancelled, "cancelled by the user");
  const RunOutcome outcome = runner.Run();
  CHECK(outcome.event == JobEvent::kCancelled);
  CHECK(runner.cancelled());
}

TEST_CASE("jobs that want the same devices run in the order in which they came") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  site.agents.SetTraining(TrainForEver);
  const std::string first = site.Submit(FakeJob("first"));
  site.Await(first, v1::JOB_STATE_RUNNING);
  const std::string second = site.Submit(FakeJob("second"));
  const std::string third = site.Submit(FakeJob("third"));
  CHECK(site.orchestrator->journal().Get(second)->state() == v1::JOB_STATE_QUEUED);
  site.agents.SetTraining(TrainThreeSteps);
  REQUIRE(site.Cancel(first).ok());
  site.Await(third, v1::JOB_STATE_DONE);
  const std::vector<v1::PrepareRequest> tasks = site.agents.trainings();
  REQUIRE(tasks.size() == 3);
  CHECK(tasks[1].train().job_id() == second);
  CHECK(tasks[2].train().job_id() == third);
}

TEST_CASE("jobs pinned to different devices run side by side") {
  OrchestratorSite site;
  site.Register(FakeNode("a", 2));
  site.agents.SetTraining(TrainForEver);
  const std::string first = site.Submit(PinnedJob("first", {"a/cpu0"}));
  const std::string second = site.Submit(PinnedJob("second", {"a/cpu1"}));
  site.Await(first, v1::JOB_STATE_RUNNING);
  site.Await(second, v1::JOB_STATE_RUNNING);
}

TEST_CASE("a job that fits no device there is fails and says what it needs") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  v1::JobSpec huge = FakeJob("huge");
  huge.mutable_model()->mutable_gpt2()->set_hidden(8192);
  huge.mutable_model()->mutable_gpt2()->set_layers(64);
  const v1::Job job = site.Await(site.Submit(huge), v1::JOB_STATE_FAILED);
  CHECK_THAT(job.state_reason(), Catch::Contains("GiB"));
  CHECK(site.agents.trainings().empty());
}

TEST_CASE(
    "a job that does not fit on what is left of its devices waits for more, without trying the same again") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  v1::RegisterRequest large = FakeNode("b");
  large.mutable_node()->mutable_devices(0)->set_memory_bytes(uint64_t{64} << 30);
  site.Register(large);
  site.agents.SetTraining(TrainForEver);
  v1::JobSpec spec = FakeJob("large");
  spec.mutable_model()->mutable_gpt2()->set_hidden(4096);
  const bool named = GENERATE(false, true);
  CAPTURE(named);
  if (named) {
    spec.mutable_constraints()->add_devices("a/cpu0");
    spec.mutable_constraints()->add_devices("b/cpu0");
  }
  const std::string id = site.Submit(spec);
  site.Await(id, v1::JOB_STATE_RUNNING);
  site.agents.SetTraining(TrainThreeSteps);
  site.agents.TakeDown("b:1");
  site.AwaitJob(id, [](const v1::Job& job) {
    return job.state() == v1::JOB_STATE_RECOVERING && absl::StrContains(job.state_reason(), "no plan fits");
  });
  site.orchestrator->journal().Flush();
  // Ticks go by in which it could be tried again.
  CHECK_THROWS_AS(site.AwaitJob(
                      id, [](const v1::Job& job) { return job.state() == v1::JOB_STATE_PROFILING; },
                      absl::Milliseconds(400)),
                  NotInTime);
  const std::vector<std::string> states = site.States(id);
  // Once with both, once with what was left.
  CHECK(std::count(states.begin(), states.end(), "planning") == 2);
  site.agents.BringUp("b:1");
  REQUIRE(site.Renew("b").ok());
  site.Await(id, v1::JOB_STATE_DONE);
}

TEST_CASE("a job that was given devices too small for any part of it waits for larger ones") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  site.agents.SetTraining(TrainForEver);
  const std::string first = site.Submit(FakeJob("first"));
  site.Await(first, v1::JOB_STATE_RUNNING);
  site.agents.SetProfile([](FakeWorker&) { return absl::ResourceExhaustedError("a layer needs 4 GiB"); });
  site.Register(FakeNode("b", 1, 1, "small"));
  const std::string second = site.Submit(FakeJob("second"));
  site.AwaitJob(second, [](const v1::Job& job) {
    return job.state() != v1::JOB_STATE_PROFILING && absl::StrContains(job.state_reason(), "4 GiB");
  });
  CHECK(site.orchestrator->journal().Get(second)->state() == v1::JOB_STATE_QUEUED);
  site.agents.SetTraining(TrainThreeSteps);
  REQUIRE(site.Cancel(first).ok());
  const v1::Job job = site.Await(second, v1::JOB_STATE_DONE);
  REQUIRE(job.plan().plan().units_size() == 1);
  CHECK(job.plan().plan().units(0).devices(0) == "a/cpu0");

  // Where nothing more may come, and where its plan names the device, it fails, and says what it lacks.
  OrchestratorSite alone;
  alone.agents.SetProfile([](FakeWorker&) { return absl::ResourceExhaustedError("a layer needs 4 GiB"); });
  alone.Register(FakeNode("b"));
  const bool pinned = GENERATE(false, true);
  CAPTURE(pinned);
  if (pinned) alone.Register(FakeNode("c"));
  const v1::Job failed = alone.Await(alone.Submit(pinned ? PinnedJob("third", {"b/cpu0"}) : FakeJob("third")),
                                     v1::JOB_STATE_FAILED);
  CHECK_THAT(failed.state_reason(), Catch::Contains("b/cpu0") && Catch::Contains("a layer needs 4 GiB"));
}

TEST_CASE("a dry run measures and plans, starts nothing and leaves no trace") {
  OrchestratorSite site;
  CHECK(absl::IsFailedPrecondition(site.orchestrator->Plan(DryRun(FakeJob("dry"))).status()));
  site.Register(FakeNode("a", 2));
  const absl::StatusOr<v1::PlanReport> report = site.orchestrator->Plan(DryRun(FakeJob("dry")));
  INFO(report.status().ToString());
  REQUIRE(report.ok());
  CHECK(report->predicted_step_seconds() > 0);
  CHECK(report->plan().units_size() > 0);
  CHECK(site.agents.profiles() == 1);
  CHECK(site.agents.trainings().empty());
  CHECK(site.AllDevicesAreFree());
  CHECK(site.store->ListJobs(10)->empty());
}

TEST_CASE("a job that names devices, and how many of them, is planned on no more, also in a dry run") {
  OrchestratorSite site;
  site.Register(FakeNode("a", 4));
  v1::JobSpec spec = FakeJob("few");
  spec.mutable_scheduling()->set_least_devices(1);
  spec.mutable_scheduling()->set_most_devices(2);
  for (const char* device : {"a/cpu1", "a/cpu2", "a/cpu3"}) spec.mutable_constraints()->add_devices(device);
  const absl::StatusOr<v1::PlanReport> report = site.orchestrator->Plan(DryRun(spec));
  INFO(report.status().ToString());
  REQUIRE(report.ok());
  const v1::Job job = site.Await(site.Submit(spec), v1::JOB_STATE_DONE);
  for (const v1::PlanReport& planned : {*report, job.plan()}) {
    REQUIRE(planned.devices_size() == 2);
    CHECK(planned.devices(0).device() == "a/cpu1");
    CHECK(planned.devices(1).device() == "a/cpu2");
  }
}

TEST_CASE(
    "an attempt that has ended tells later plans how far they may be off, under the next coordinator, too") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  site.agents.SetTraining([](FakeWorker& worker) -> absl::Status {
    const double seconds = worker.request().train().predicted_step_seconds();
    for (uint32_t step = 1; step <= 12; ++step) worker.Say(StepOf(step, 3.0, seconds));
    return absl::OkStatus();
  });
  const auto error_of_plan = [&] {
    const absl::StatusOr<v1::PlanReport> report = site.orchestrator->Plan(DryRun(FakeJob("dry")));
    INFO(report.status().ToString());
    REQUIRE(report.ok());
    return report->prediction_error();
  };
  const v1::PredictionError published = error_of_plan();
  CHECK(published.basis() == v1::PREDICTION_BASIS_MEASURED_DEVICES);
  CHECK(published.live_runs() == 0);
  const v1::Job job = site.Await(site.Submit(FakeJob("exact")), v1::JOB_STATE_DONE);
  CHECK(job.plan().prediction_error().live_runs() == 0);  // it was planned before

  const v1::PredictionError learnt = error_of_plan();
  CHECK(learnt.live_runs() == 1);
  CHECK(learnt.usual() < published.usual());
  site.orchestrator.reset();
  site.Start();
  site.Register(FakeNode("a"));
  CHECK(error_of_plan().live_runs() == 1);
  CHECK(site.Await(site.Submit(FakeJob("next")), v1::JOB_STATE_DONE).plan().prediction_error().usual() ==
        learnt.usual());
  CHECK(error_of_plan().live_runs() == 2);
  // And plans for a file of this cluster.
  const absl::StatusOr<v1::ClusterSpec> exported = site.orchestrator->ExportCluster();
  REQUIRE(exported.ok());
  REQUIRE(exported->live_errors_size() == 2);
  for (const v1::LiveError& error : exported->live_errors()) {
    REQUIRE(error.device_kinds_size() == 1);
    CHECK(error.device_kinds(0) == "fake");
    CHECK(error.error() == Approx(0).margin(1e-9));
  }
}

TEST_CASE("a submission repeated under its request id is the same job") {
  OrchestratorSite site;
  v1::SubmitJobRequest request;
  *request.mutable_spec() = FakeJob("tiny");
  request.set_request_id("r1");
  const absl::StatusOr<v1::Job> first = site.orchestrator->Submit(request),
                                again = site.orchestrator->Submit(request);
  REQUIRE(first.ok());
  REQUIRE(again.ok());
  CHECK(first->id() == again->id());
  CHECK(site.store->ListJobs(10)->size() == 1);
  request.mutable_spec()->mutable_model()->mutable_gpt2()->set_heads(3);
  CHECK(absl::IsInvalidArgument(site.orchestrator->Submit(request).status()));
}

TEST_CASE("an exported cluster has the live nodes and all that was measured") {
  OrchestratorSite site;
  site.Register(FakeNode("a", 2));
  site.Await(site.Submit(FakeJob("tiny")), v1::JOB_STATE_DONE);
  const absl::StatusOr<v1::ClusterSpec> cluster = site.orchestrator->ExportCluster();
  REQUIRE(cluster.ok());
  CHECK(cluster->nodes_size() == 1);
  CHECK(cluster->profiles_size() == 1);
  CHECK(cluster->links_size() == 1);
}

TEST_CASE("an exported cluster of many devices has classes of links that are alike, and not every pair") {
  OrchestratorSite site;
  site.Register(FakeNode("a", 9));
  site.Register(FakeNode("b", 9));
  REQUIRE(site.orchestrator->MeasureLinks({}).ok());
  const absl::StatusOr<v1::ClusterSpec> exported = site.orchestrator->ExportCluster();
  REQUIRE(exported.ok());
  CHECK(exported->links_size() == 0);
  REQUIRE(exported->link_classes_size() == 2);  // on one machine, and between two
  CHECK(exported->link_classes(0).level() != exported->link_classes(1).level());
  for (const v1::LinkClass& link : exported->link_classes()) CHECK(link.bytes_per_second() == Approx(1e9));
}

TEST_CASE("an exported cluster has the site that a node's newest agent says, and links by it") {
  OrchestratorSite site;
  const auto at = [&](v1::RegisterRequest node, const std::string& where) {
    node.mutable_node()->set_site(where);
    site.Register(node);
  };
  at(FakeNode("a", 9), "north");
  at(FakeNode("b", 9), "north");
  REQUIRE(site.orchestrator->MeasureLinks({}).ok());
  const auto check = [&](const std::string& where, v1::LinkLevel level) {
    const absl::StatusOr<v1::ClusterSpec> exported = site.orchestrator->ExportCluster();
    REQUIRE(exported.ok());
    REQUIRE(exported->nodes_size() == 2);
    CHECK(exported->nodes(0).site() == "north");
    CHECK(exported->nodes(1).site() == where);
    std::set<int> levels;
    for (const v1::LinkClass& link : exported->link_classes()) levels.insert(link.level());
    CHECK(levels == std::set<int>{v1::LINK_LEVEL_NODE, level});
  };
  check("north", v1::LINK_LEVEL_SITE);
  at(FakeNode("b", 9, /*incarnation=*/2), "south");
  check("south", v1::LINK_LEVEL_SITES);
}

std::vector<std::string> NamesOf(const Orchestrator::KnownLinks& links) {
  std::vector<std::string> names;
  for (const ClusterDeviceLocation& device : links.devices) names.push_back(FullName(device));
  return names;
}

TEST_CASE("where there are no devices it is said that there are none, not that they are wrong or in use") {
  OrchestratorSite site;
  CHECK(site.orchestrator->MeasureLinks({}).status() ==
        absl::FailedPreconditionError("no agent is registered: there are no links to measure"));
  v1::PlanJobRequest request;
  *request.mutable_spec() = FakeJob("tiny");
  CHECK(site.orchestrator->Plan(request).status() ==
        absl::FailedPreconditionError(
            "no agent is registered, and `medley plan --cluster` plans without them"));
  site.Register(FakeNode("a", 1));
  CHECK(site.orchestrator->MeasureLinks({}).status() ==
        absl::FailedPreconditionError("there are no links to measure: a/cpu0 is the only device"));
}

TEST_CASE("links are listed as far as they are known, for all devices or for some") {
  OrchestratorSite site;
  site.Register(FakeNode("a", 2));
  site.Register(FakeNode("b", 1));
  absl::StatusOr<Orchestrator::KnownLinks> links = site.orchestrator->Links({});
  REQUIRE(links.ok());
  CHECK(NamesOf(*links) == std::vector<std::string>{"a/cpu0", "a/cpu1", "b/cpu0"});
  CHECK(LinksOf(links).size() == 0);
  links = site.orchestrator->MeasureLinks({"b/cpu0", "a/cpu1"});
  REQUIRE(links.ok());
  REQUIRE(LinksOf(links).size() == 1);
  CHECK(LinksOf(links)[0].a() == "b/cpu0");
  CHECK(site.agents.probes() == 2);
  CHECK(site.AllDevicesAreFree());
  links = site.orchestrator->Links({});
  REQUIRE(links.ok());
  CHECK(LinksOf(links).size() == 2);  // both of a's devices to b: alike
  links = site.orchestrator->MeasureLinks({});
  REQUIRE(links.ok());
  CHECK(LinksOf(links).size() == 3);
  CHECK(site.agents.probes() == 2 + 2 * 2);

  const absl::Status unknown = site.orchestrator->Links({"a/cpu0", "c/cpu0"}).status();
  CHECK(absl::IsNotFound(unknown));
  CHECK_THAT(std::string(unknown.message()), Catch::Contains("c/cpu0") && Catch::Contains("b/cpu0"));
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{"a/cpu0"}, {"a/cpu0", "a/cpu0"}}) {
    CHECK(absl::IsInvalidArgument(site.orchestrator->MeasureLinks(wrong).status()));
  }
}

TEST_CASE("where thousands of devices are of drained nodes some are named") {
  OrchestratorSite site;
  constexpr int kNodes = 40, kDevicesOfNode = 50;
  for (int n = 0; n < kNodes; ++n) site.Register(FakeNode(absl::StrCat("node", n), kDevicesOfNode));
  for (int n = 0; n < kNodes; ++n) {
    v1::DrainNodeRequest drain;
    drain.set_node(absl::StrCat("node", n));
    REQUIRE(site.orchestrator->DrainNode(drain).ok());
  }
  const absl::Status refused = site.orchestrator->MeasureLinks({}).status();
  CHECK(absl::IsFailedPrecondition(refused));
  CHECK_THAT(std::string(refused.message()),
             Catch::Contains("node0/cpu0, node0/cpu1, ") &&
                 Catch::Contains(" and 1988 more are of drained nodes (`medley undrain`"));
  CHECK(site.agents.probes() == 0);
}

TEST_CASE("links are measured between free devices alone") {
  OrchestratorSite site;
  site.Register(FakeNode("a", 2));
  site.agents.SetTraining(TrainForEver);
  const std::string id = site.Submit(PinnedJob("busy", {"a/cpu1"}));
  site.Await(id, v1::JOB_STATE_RUNNING);
  const absl::Status busy = site.orchestrator->MeasureLinks({}).status();
  CHECK(absl::IsFailedPrecondition(busy));
  CHECK_THAT(std::string(busy.message()), Catch::Contains("a/cpu1 is in use") && !Catch::Contains("a/cpu0"));
  CHECK(site.agents.probes() == 0);
  site.Register(FakeNode("b"));
  v1::DrainNodeRequest drain;
  drain.set_node("b");
  REQUIRE(site.orchestrator->DrainNode(drain).ok());
  CHECK_THAT(std::string(site.orchestrator->MeasureLinks({}).status().message()),
             Catch::Contains("a/cpu1 is in use") && Catch::Contains(", b/cpu0 is of a drained node"));
  REQUIRE(site.orchestrator->UndrainNode("b").ok());
  REQUIRE(site.Cancel(id).ok());
  site.Await(id, v1::JOB_STATE_CANCELLED);
  CHECK(site.orchestrator->MeasureLinks({}).ok());
}

TEST_CASE("an attempt's secret is in no answer and not in the store") {
  OrchestratorSite site;
  site.Register(FakeNode("a", 2));
  site.agents.SetTraining([](FakeWorker&) { return absl::InternalError("broken"); });
  const std::string id = site.Submit(PinnedJob("tiny", {"a/cpu0", "a/cpu1"}));
  const v1::Job job = site.Await(id, v1::JOB_STATE_FAILED);
  std::string said = job.SerializeAsString() + site.orchestrator->ExportCluster()->SerializeAsString();
  for (const std::string& line : site.Log(id)) said += line;
  site.orchestrator.reset();
  site.store.reset();
  for (const char* file : {"/medley.db", "/medley.db-wal"}) {
    std::ifstream in(site.directory.path() + file, std::ios::binary);
    said.append(std::istreambuf_iterator<char>(in), {});
  }
  CHECK(said.find("tiny") != std::string::npos);
  int secrets = 0;
  for (const v1::PrepareRequest& request : site.agents.requests()) {
    if (request.attempt_secret().empty()) continue;
    ++secrets;
    CHECK(said.find(request.attempt_secret().substr(0, 12)) == std::string::npos);
  }
  CHECK(secrets == 2 + 2);  // a probe's, the job's
}

}  // namespace
}  // namespace medley
