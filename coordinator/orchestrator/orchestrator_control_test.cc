// What users do with jobs that run, wait or have ended.
#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "coordinator/orchestrator/orchestrator_under_test.h"
#include "runtime/base/files/scarce_disk.h"

namespace medley {
namespace {

v1::WorkerEvent TracedUntil(uint32_t last_step) {
  v1::WorkerEvent event;
  event.mutable_trace_finished()->set_last_step(last_step);
  return event;
}

TEST_CASE(
    "a failed or cancelled job goes on under its id from its last checkpoint when the user resumes it") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  site.agents.SetTraining([](FakeWorker& worker) -> absl::Status {
    worker.Say(StepOf(1, 3));
    worker.Say(CheckpointAt(1, "/nowhere/checkpoints/tiny/step-1"));
    return absl::InvalidArgumentError("the loss is not finite");
  });
  const std::string id = site.Submit(SavingJob("tiny"));
  v1::Job job = site.Await(id, v1::JOB_STATE_FAILED);
  CHECK(job.ended_at_seconds() > 0);
  site.agents.SetTraining(TrainThreeSteps);
  REQUIRE(site.orchestrator->Resume(id).ok());
  job = site.Await(id, v1::JOB_STATE_DONE);
  CHECK(job.restarts() == 0);
  CHECK(job.attempt() == 2);
  REQUIRE(site.agents.trainings().size() == 2);
  CHECK(site.agents.trainings()[1].train().resume_from() == "/nowhere/checkpoints/tiny/step-1");
  CHECK(site.agents.trainings()[1].train().run_id() == site.agents.trainings()[0].train().run_id());
  CHECK_FALSE(site.agents.trainings()[1].train().resumes_other_run());
  for (uint32_t i : {0u, 1u}) CHECK(site.agents.trainings()[i].train().job_attempt() == i + 1);
  CHECK(absl::IsFailedPrecondition(site.orchestrator->Resume(id).status()));  // it is done
  CHECK(absl::IsNotFound(site.orchestrator->Resume("nobody-1").status()));
}

TEST_CASE(
    "a job begins from another run's checkpoint only where its spec says so, and from its own afterwards") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  std::atomic<int> launches = 0;
  site.agents.SetTraining([&](FakeWorker& worker) -> absl::Status {
    if (++launches > 1) return TrainThreeSteps(worker);
    worker.Say(CheckpointAt(2, "/nowhere/checkpoints/tiny/step-2"));
    return absl::UnavailableError("the worker died");
  });
  v1::JobSpec spec = SavingJob("tiny");
  spec.mutable_checkpoint()->set_resume_from("/elsewhere/step-00000120");
  site.Await(site.Submit(spec), v1::JOB_STATE_DONE);
  REQUIRE(site.agents.trainings().size() == 2);
  CHECK(site.agents.trainings()[0].train().resume_from() == "/elsewhere/step-00000120");
  CHECK(site.agents.trainings()[0].train().resumes_other_run());
  CHECK(site.agents.trainings()[1].train().resume_from() == "/nowhere/checkpoints/tiny/step-2");
  CHECK_FALSE(site.agents.trainings()[1].train().resumes_other_run());
}

TEST_CASE("a job can be stopped after a checkpoint, and goes on from there") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  site.agents.SetTraining(TrainForEver);
  const std::string without = site.Submit(FakeJob("without"));
  site.Await(without, v1::JOB_STATE_RUNNING);
  CHECK(absl::IsFailedPrecondition(site.Cancel(without, /*after_checkpoint=*/true).status()));
  REQUIRE(site.Cancel(without).ok());
  const std::string id = site.Submit(SavingJob("tiny"));
  site.Await(id, v1::JOB_STATE_RUNNING);
  CHECK_THAT(site.Cancel(id, /*after_checkpoint=*/true)->state_reason(), Catch::Contains("checkpoint"));
  CHECK_THAT(site.Await(id, v1::JOB_STATE_CANCELLED).state_reason(),
             Catch::Contains("by the user after a checkpoint"));
  CHECK(site.AllDevicesAreFree());
}

TEST_CASE("a wish to end after a checkpoint that no agent heard is repeated until one has") {
  OrchestratorSite site;
  std::atomic<int> asked = 0;
  site.agents.SetStopAnswer([&](const v1::StopRequest& request) {
    return request.after_checkpoint() && ++asked < 3 ? absl::DeadlineExceededError("Deadline Exceeded")
                                                     : absl::OkStatus();
  });
  site.Register(FakeNode("a"));
  site.agents.SetTraining(TrainForEver);
  const std::string id = site.Submit(SavingJob("tiny"));
  site.Await(id, v1::JOB_STATE_RUNNING);
  REQUIRE(site.Cancel(id, /*after_checkpoint=*/true).ok());
  site.Await(id, v1::JOB_STATE_CANCELLED);
  CHECK(asked == 3);
}

TEST_CASE(
    "a job that was to end after a checkpoint and is lost before ends all the same, and goes on when it is "
    "resumed") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  site.agents.SetTraining([](FakeWorker& worker) -> absl::Status {
    worker.Say(CheckpointAt(1, "/nowhere/checkpoints/step-1"));
    worker.AwaitEnd();
    return absl::UnavailableError("the worker died");
  });
  const std::string id = site.Submit(SavingJob("tiny"));
  site.Await(id, v1::JOB_STATE_RUNNING);
  site.AwaitJob(id, [](const v1::Job& job) { return job.checkpoint_step() == 1; });
  REQUIRE(site.Cancel(id, /*after_checkpoint=*/true).ok());
  const v1::Job job = site.AwaitJob(id, [](const v1::Job& j) { return j.state() != v1::JOB_STATE_RUNNING; });
  CHECK(job.state() == v1::JOB_STATE_CANCELLED);
  CHECK(job.restarts() == 0);
  CHECK_THAT(job.state_reason(),
             Catch::Contains("stopped by the user; no checkpoint") && Catch::Contains("the worker died"));
  site.agents.SetTraining(TrainThreeSteps);
  REQUIRE(site.orchestrator->Resume(id).ok());
  site.Await(id, v1::JOB_STATE_DONE);
  CHECK(site.agents.trainings().back().train().resume_from() == "/nowhere/checkpoints/step-1");
}

TEST_CASE("a job that is being cancelled says so at once") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  site.agents.SetTraining(TrainForEver);
  const std::string id = site.Submit(FakeJob("tiny"));
  site.Await(id, v1::JOB_STATE_RUNNING);
  const absl::StatusOr<v1::Job> answer = site.Cancel(id);
  REQUIRE(answer.ok());
  CHECK((answer->state() == v1::JOB_STATE_CANCELLED ||
         absl::StrContains(answer->state_reason(), "is being cancelled")));
  CHECK(site.Await(id, v1::JOB_STATE_CANCELLED).state_reason() == "cancelled by the user");
}

TEST_CASE("a job that is held waits until it is released") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  v1::JobSpec spec = FakeJob("held");
  spec.mutable_scheduling()->set_hold(true);
  const std::string id = site.Submit(spec);
  const std::string other = site.Submit(FakeJob("other"));
  site.Await(other, v1::JOB_STATE_DONE);  // is not held up by it
  CHECK_THAT(site.AwaitJob(id, [](const v1::Job& job) { return !job.state_reason().empty(); }).state_reason(),
             Catch::Contains("medley release"));
  v1::HoldJobRequest release;
  release.set_job_id(id);
  REQUIRE(site.orchestrator->Hold(release).ok());
  site.Await(id, v1::JOB_STATE_DONE);
  release.set_hold(true);
  CHECK(absl::IsFailedPrecondition(site.orchestrator->Hold(release).status()));
}

// What a job's files say is read when it is submitted, and not, with everybody waiting, in each look at what may start: they may be on
// a disk that hangs.
TEST_CASE("a job that takes few devices gets the fastest of its shape, although its model's files are gone") {
  OrchestratorSite site;
  std::string id;
  v1::JobSpec spec = FakeJob("picky");
  spec.mutable_scheduling()->set_hold(true);
  spec.mutable_scheduling()->set_most_devices(1);
  {
    const TemporaryDirectory model;
    model.Write("config.json",
                R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 8, "n_head": 2, "vocab_size": 1024,
                    "n_positions": 16, "activation_function": "gelu_new"})");
    spec.mutable_model()->clear_gpt2();
    spec.mutable_model()->set_hugging_face(model.path());
    id = site.Submit(spec);
  }
  for (const auto& [kind, seconds] : {std::pair("fast", 0.1), std::pair("slow", 0.2)}) {
    v1::DeviceProfile profile;
    profile.set_device_kind(kind);
    profile.set_shape(site.store->GetJob(id)->shape());
    profile.add_times()->set_micro_batch_sequences(1);
    profile.mutable_times(0)->set_layer_forward_seconds(seconds);
    REQUIRE(site.store->PutProfile(profile).ok());
  }
  site.Register(FakeNode("a", 1, 1, "slow"));
  site.Register(FakeNode("b", 1, 1, "fast"));
  v1::HoldJobRequest release;
  release.set_job_id(id);
  REQUIRE(site.orchestrator->Hold(release).ok());
  site.Await(id, v1::JOB_STATE_FAILED);
  const std::vector<std::string> log = site.Log(id);
  CHECK(std::count(log.begin(), log.end(), "profiling: on b/cpu0") == 1);
}

v1::DrainNodeResponse Drain(OrchestratorSite& site, const std::string& node, bool now = false) {
  v1::DrainNodeRequest request;
  request.set_node(node);
  request.set_now(now);
  const absl::StatusOr<v1::DrainNodeResponse> drained = site.orchestrator->DrainNode(request);
  INFO(drained.status());
  REQUIRE(drained.ok());
  return *drained;
}

TEST_CASE(
    "a job that saves checkpoints leaves a node that is drained, and goes on without a restart counted") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  site.agents.SetTraining(TrainForEver);
  const std::string id = site.Submit(SavingJob("moves"));
  site.Await(id, v1::JOB_STATE_RUNNING);
  site.Register(FakeNode("b"));
  const v1::DrainNodeResponse drained = Drain(site, "a");
  CHECK(drained.leaving_size() == 1);
  CHECK(drained.leaving_at_once_size() == 0);
  CHECK(drained.staying_size() == 0);
  const v1::Job job = site.AwaitJob(
      id, [](const v1::Job& j) { return j.attempt() == 2 && j.state() == v1::JOB_STATE_RUNNING; });
  CHECK(job.restarts() == 0);
  REQUIRE(job.plan().plan().units_size() == 1);
  CHECK(job.plan().plan().units(0).devices(0) == "b/cpu0");
  CHECK(Drain(site, "a").leaving_size() == 0);  // once more: nobody is there any more
  for (const v1::Node& node : site.orchestrator->Nodes()) CHECK(node.drained() == (node.name() == "a"));
  REQUIRE(site.Cancel(id).ok());
}

TEST_CASE("a job without checkpoints stays on a drained node, unless it is to leave now") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  site.agents.SetTraining(TrainForEver);
  const std::string id = site.Submit(FakeJob("stays"));
  site.Await(id, v1::JOB_STATE_RUNNING);
  CHECK(Drain(site, "a").staying(0) == id);
  CHECK(site.orchestrator->journal().Get(id)->state() == v1::JOB_STATE_RUNNING);
  const v1::DrainNodeResponse left = Drain(site, "a", /*now=*/true);
  CHECK(left.leaving(0) == id);
  REQUIRE(left.leaving_at_once_size() == 1);
  CHECK(left.leaving_at_once(0) == id);
  CHECK_THAT(site.AwaitJob(id,
                           [](const v1::Job& job) {
                             return job.state() != v1::JOB_STATE_RUNNING &&
                                    job.state_reason().find("waits for") != std::string::npos;
                           })
                 .state_reason(),
             Catch::Contains("waits for a device: drained are a"));
  REQUIRE(site.orchestrator->UndrainNode("a").ok());
  CHECK(site.AwaitJob(
                id,
                [](const v1::Job& job) { return job.attempt() == 2 && job.state() == v1::JOB_STATE_RUNNING; })
            .restarts() == 0);
  REQUIRE(site.Cancel(id).ok());
}

TEST_CASE(
    "a node stays drained over restarts of the coordinator and of its agent, and unknown ones are said to "
    "be") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  CHECK(absl::IsNotFound(site.orchestrator->UndrainNode("z")));
  v1::DrainNodeRequest unknown;
  unknown.set_node("z");
  CHECK(absl::IsNotFound(site.orchestrator->DrainNode(unknown).status()));
  Drain(site, "a");
  site.orchestrator.reset();
  site.Start();
  site.Register(FakeNode("a"));
  const std::string id = site.Submit(FakeJob("waits"));
  CHECK_THAT(site.AwaitJob(id, [](const v1::Job& job) { return !job.state_reason().empty(); }).state_reason(),
             Catch::Contains("waits for"));
  REQUIRE(site.orchestrator->UndrainNode("a").ok());
  REQUIRE(site.orchestrator->UndrainNode("a").ok());
  site.Await(id, v1::JOB_STATE_DONE);
}

TEST_CASE("jobs save a checkpoint and go on elsewhere when an agent says that it will leave") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  site.agents.SetTraining(TrainForEver);
  const std::string id = site.Submit(SavingJob("moves"));
  site.Await(id, v1::JOB_STATE_RUNNING);
  site.Register(FakeNode("b"));
  v1::LeaveRequest request;
  request.set_node("a");
  request.set_incarnation(7);
  CHECK(absl::IsNotFound(site.orchestrator->Leave(request).status()));  // another life of it
  request.set_incarnation(1);
  CHECK(site.orchestrator->Leave(request)->leaving_jobs() == 1);
  const v1::Job job = site.AwaitJob(
      id, [](const v1::Job& j) { return j.attempt() == 2 && j.state() == v1::JOB_STATE_RUNNING; });
  CHECK(job.restarts() == 0);
  CHECK(job.plan().plan().units(0).devices(0) == "b/cpu0");
  // It registers anew before it has ended, and leaves all the same.
  v1::RegisterRequest again = FakeNode("a");
  again.set_leaving(true);
  site.Register(again);
  const std::string next = site.Submit(FakeJob("waits"));
  CHECK_THAT(
      site.AwaitJob(next, [](const v1::Job& one) { return !one.state_reason().empty(); }).state_reason(),
      Catch::Contains("waits for"));
  site.Register(FakeNode("a"));
  site.Await(next, v1::JOB_STATE_RUNNING);
  REQUIRE(site.Cancel(next).ok());
  REQUIRE(site.Cancel(id).ok());
}

TEST_CASE("what a job names must lie where jobs may read and write, and not too many wait") {
  OrchestratorSite site({.lease = absl::Hours(1),
                         .settle = absl::ZeroDuration(),
                         .back_off = absl::ZeroDuration(),
                         .most_waiting_jobs = 1,
                         .allowed_directories = {"/data"}});
  v1::SubmitJobRequest request;
  *request.mutable_spec() = FakeJob("one");
  request.mutable_spec()->mutable_data()->set_train("/etc/passwd");
  CHECK_THAT(std::string(site.orchestrator->Submit(request).status().message()),
             Catch::StartsWith("data.train: /etc/passwd lies in none of the directories that are allowed"));
  request.mutable_spec()->mutable_data()->set_train("/data/train.txt");
  request.set_request_id("once");
  const auto first = site.orchestrator->Submit(request);
  REQUIRE(first.ok());
  // Its answer may have been lost.
  const auto repeated = site.orchestrator->Submit(request);
  REQUIRE(repeated.ok());
  CHECK(repeated->id() == first->id());
  request.set_request_id("twice");
  CHECK(site.orchestrator->Submit(request).status() ==
        absl::ResourceExhaustedError("1 job waits already, and no more may (most_waiting_jobs)"));
}

TEST_CASE("a job whose end was promised does not go on elsewhere because its node is drained meanwhile") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  absl::Notification drained;
  site.agents.SetTraining([&](FakeWorker& worker) -> absl::Status {
    worker.Say(StepOf(1, 3.0));
    drained.WaitForNotification();
    worker.AwaitEnd();
    return worker.asked_to_finish() ? worker.FinishedAt(2) : absl::OkStatus();
  });
  const std::string id = site.Submit(SavingJob("ends"));
  site.AwaitJob(id, [](const v1::Job& job) {
    return job.state() == v1::JOB_STATE_RUNNING && job.last_step().step() >= 1;
  });
  site.Register(FakeNode("b"));  // where it could go on
  REQUIRE(site.Cancel(id, /*after_checkpoint=*/true).ok());
  v1::DrainNodeRequest drain;
  drain.set_node("a");
  CHECK(site.orchestrator->DrainNode(drain).ok());
  drained.Notify();
  site.Await(id, v1::JOB_STATE_CANCELLED);
}

TEST_CASE("what a plan does not use is free for the next job") {
  OrchestratorSite site;
  site.Register(FakeNode("a", 2));
  site.agents.SetTraining(TrainForEver);
  v1::JobSpec spec = FakeJob("one");
  spec.mutable_constraints()->set_max_routes(1);
  spec.mutable_constraints()->set_max_stages(1);
  const std::string first = site.Submit(spec), second = site.Submit(spec);
  site.Await(first, v1::JOB_STATE_RUNNING);
  site.Await(second, v1::JOB_STATE_RUNNING);
}

TEST_CASE("nodes that read other data than the rest are told apart before a step is made") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  site.Register(FakeNode("b"));
  site.agents.SetFingerprint([](const v1::PrepareRequest& request) {
    return request.train().rank() == 0 ? "train 10" : "train 11";
  });
  v1::Job job = site.Await(site.Submit(PinnedJob("two", {"a/cpu0", "b/cpu0"})), v1::JOB_STATE_FAILED);
  CHECK_THAT(job.state_reason(),
             Catch::Contains("a/cpu0 has train 10") && Catch::Contains("b/cpu0 has train 11"));
  CHECK(job.last_step().step() == 0);

  // Nor does a job go on with files that have changed.
  std::string now = "train 10";
  site.agents.SetFingerprint([&](const v1::PrepareRequest&) { return now; });
  site.agents.SetTraining([&](FakeWorker&) -> absl::Status {
    now = "train 12";
    return absl::UnavailableError("the worker died");
  });
  job = site.Await(site.Submit(PinnedJob("one", {"a/cpu0"})), v1::JOB_STATE_FAILED);
  CHECK(job.data_fingerprint() == "train 10");
  CHECK_THAT(job.state_reason(), Catch::Contains("train 10") && Catch::Contains("train 12"));
}

TEST_CASE("a job waits while the coordinator's disk is full, and no device is blamed for it") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  std::optional<FileSizeLimit> full;
  const std::string holder = site.Submit(PinnedJob("one", {"a/cpu0"}));
  site.Await(holder, v1::JOB_STATE_DONE);  // so that the device is measured
  std::atomic<bool> trains = false;
  site.agents.SetTraining([&](FakeWorker& worker) -> absl::Status {
    if (trains.exchange(true)) return TrainThreeSteps(worker);
    full.emplace(1);
    return absl::UnavailableError("the worker died");
  });
  const std::string id = site.Submit(PinnedJob("two", {"a/cpu0"}));
  const v1::Job waits = site.AwaitJob(id, [](const v1::Job& job) {
    return absl::StrContains(job.state_reason(), "the coordinator's store");
  });
  CHECK(waits.state() == v1::JOB_STATE_RECOVERING);
  CHECK(absl::IsUnavailable(site.Cancel(id).status()));
  full.reset();
  site.Await(id, v1::JOB_STATE_CANCELLED);  // it may just have been tried again
  CHECK(site.orchestrator->Resume(id).ok());
  CHECK(site.Await(id, v1::JOB_STATE_DONE).restarts() == 1);  // the worker's death
}

TEST_CASE("a job that was launched before does not begin anew where its checkpoints cannot be looked at") {
  const TemporaryDirectory folder;
  const std::string checkpoint = folder.File("tiny-1/step-00000020");
  std::filesystem::create_directories(checkpoint);
  // As with a file server that is away: opening it fails for a reason that says nothing of what is there.
  std::filesystem::create_symlink("manifest.json", checkpoint + "/manifest.json");
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  std::atomic<int> launches = 0;
  site.agents.SetTraining([&](FakeWorker&) -> absl::Status {
    ++launches;
    return absl::UnavailableError("the worker died");
  });
  v1::JobSpec spec = SavingJob("tiny");
  spec.mutable_checkpoint()->set_directory(folder.path());
  const std::string id = site.Submit(spec);
  REQUIRE(id == "tiny-1");
  const v1::Job job = site.Await(id, v1::JOB_STATE_FAILED);
  CHECK(launches == 1);
  CHECK(job.restarts() == 3);
  CHECK_THAT(job.state_reason(),
             Catch::Contains("checkpoint.directory cannot be looked into") && Catch::Contains(checkpoint));
}

TEST_CASE("where no checkpoint is left that can be read a job fails instead of training from the start") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  std::atomic<bool> damaged = false;
  std::atomic<int> launches = 0;
  site.agents.SetPreparation([&](const v1::PrepareRequest& request) -> absl::Status {
    if (!damaged || request.train().resume_from().empty()) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat(request.train().resume_from(), "/segment-00001.safetensors: has checksum 1"));
  });
  site.agents.SetTraining([&](FakeWorker& worker) -> absl::Status {
    if (++launches > 1) return TrainThreeSteps(worker);
    worker.Say(CheckpointAt(1, "/nowhere/checkpoints/step-1"));
    damaged = true;
    return absl::UnavailableError("the worker died");
  });
  const std::string id = site.Submit(SavingJob("tiny"));
  const v1::Job job = site.Await(id, v1::JOB_STATE_FAILED);
  CHECK(job.restarts() == 1);  // the worker's death
  CHECK(launches == 1);
  CHECK_THAT(job.state_reason(),
             Catch::Contains("checkpoint.directory: no checkpoint is left that can be read") &&
                 Catch::Contains("/nowhere/checkpoints/step-1"));
  bool told = false;
  for (const std::string& line : site.Log(id)) told |= absl::StrContains(line, "step-1 is passed over");
  CHECK(told);
}

TEST_CASE("the job after one whose launch failed gets all devices") {
  OrchestratorSite site;
  for (const char* name : {"a", "b", "c"}) site.Register(FakeNode(name));
  std::atomic<bool> fails = true;
  site.agents.SetPreparation([&](const v1::PrepareRequest& request) -> absl::Status {
    if (!request.has_train() || !fails) return absl::OkStatus();
    if (request.train().rank() == 0) return absl::NotFoundError("data.train: no such file");
    site.agents.AwaitStop(request.task_id());
    return absl::AbortedError("was killed by signal 9");
  });
  site.Await(site.Submit(PinnedJob("bad", {"a/cpu0", "b/cpu0", "c/cpu0"})), v1::JOB_STATE_FAILED);
  fails = false;
  CHECK(site.Await(site.Submit(FakeJob("good")), v1::JOB_STATE_DONE).plan().devices_size() == 3);
}

TEST_CASE("why a job waits is said") {
  OrchestratorSite site;
  const std::string id = site.Submit(FakeJob("first"));
  const auto reason = [&](const std::string& job, const std::string& text) {
    site.AwaitJob(job, [&](const v1::Job& j) { return absl::StrContains(j.state_reason(), text); });
  };
  reason(id, "waits for a device: no agent is registered");
  site.agents.SetTraining(TrainForEver);
  site.Register(FakeNode("a"));
  site.Await(id, v1::JOB_STATE_RUNNING);
  const std::string second = site.Submit(FakeJob("second"));
  reason(second, absl::StrCat("waits for a device: all are in use by ", id));
  v1::JobSpec wants = FakeJob("wants");
  wants.mutable_scheduling()->set_least_devices(2);
  const std::string third = site.Submit(wants);
  REQUIRE(site.Cancel(second).ok());
  REQUIRE(site.Cancel(id).ok());
  reason(third, "waits for 2 devices (scheduling.least_devices): 1 is free");
  const std::string fourth = site.Submit(PinnedJob("fourth", {"a/cpu0", "x/cpu0"}));
  reason(fourth, "x/cpu0 (not there)");
  wants.mutable_constraints()->add_devices("a/cpu0");
  wants.mutable_constraints()->add_devices("x/cpu0");
  reason(site.Submit(wants), "waits for 2 of constraints.devices; not free are x/cpu0 (not there)");
}

TEST_CASE("a job waits behind the one of the highest priority, not the oldest") {
  OrchestratorSite site;
  const std::string older = site.Submit(FakeJob("older"));
  v1::JobSpec wants = FakeJob("urgent");
  wants.mutable_scheduling()->set_priority(10);
  wants.mutable_scheduling()->set_least_devices(4);
  const std::string urgent = site.Submit(wants), newer = site.Submit(FakeJob("newer"));
  site.Register(FakeNode("a", 3));
  const auto reason = [&](const std::string& job, const std::string& text) {
    site.AwaitJob(job, [&](const v1::Job& j) { return j.state_reason() == text; });
  };
  reason(urgent, "waits for 4 devices (scheduling.least_devices): 3 are free");
  for (const std::string& behind : {older, newer}) reason(behind, absl::StrCat("waits behind ", urgent));
}

TEST_CASE("jobs that have ended are deleted and lost nodes forgotten when the user says so") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  const std::string id = site.Submit(FakeJob("tiny"));
  site.Await(id, v1::JOB_STATE_DONE);
  CHECK(absl::IsFailedPrecondition(site.orchestrator->ForgetNode("a")));
  CHECK(absl::IsNotFound(site.orchestrator->ForgetNode("b")));
  site.AwaitJob(id, [&](const v1::Job&) { return site.AllDevicesAreFree(); });
  absl::Status deleted;
  do deleted = site.orchestrator->Delete(id);  // its thread may still be ending
  while (absl::IsFailedPrecondition(deleted));
  REQUIRE(deleted.ok());
  CHECK(absl::IsNotFound(site.orchestrator->journal().Get(id).status()));
  v1::DeregisterRequest leaves;
  leaves.set_node("a");
  leaves.set_incarnation(1);
  site.orchestrator->Deregister(leaves);
  REQUIRE(site.orchestrator->ForgetNode("a").ok());
  CHECK(site.orchestrator->Nodes().empty());
}

TEST_CASE("a job that runs is traced by one request at a time, and the steps that do not come are counted") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  absl::Notification traced, end;
  site.agents.SetTraining([&](FakeWorker& worker) -> absl::Status {
    traced.WaitForNotification();
    worker.Say(TracedUntil(3));
    end.WaitForNotification();
    return absl::InvalidArgumentError("the loss is not finite");
  });
  v1::TraceStepsRequest request;
  request.set_job_id(site.Submit(SavingJob("traced")));
  request.set_steps(2);
  site.Await(request.job_id(), v1::JOB_STATE_RUNNING);
  std::vector<v1::TraceStepsUpdate> updates;
  const auto trace = [&](const std::function<void()>& at_first) {
    updates.clear();
    return site.orchestrator->TraceSteps(
        request,
        [&](const v1::TraceStepsUpdate& update) {
          updates.push_back(update);
          if (updates.size() == 1) at_first();
          return true;
        },
        [] { return false; });
  };
  const absl::Status first = trace([&] {
    const absl::Status second = site.orchestrator->TraceSteps(
        request, [](const v1::TraceStepsUpdate&) { return true; }, [] { return false; });
    CHECK(absl::IsFailedPrecondition(second));
    CHECK_THAT(std::string(second.message()), Catch::Contains("being traced by another request"));
    traced.Notify();
  });
  INFO(first.ToString());
  CHECK(first.ok());
  REQUIRE(updates.size() == 2);
  CHECK(updates[0].first_step() == 2);
  CHECK(updates[0].steps() == 2);
  CHECK(updates[1].lost_steps() == 2);

  // And again, until the attempt ends.
  const absl::Status ended = trace([&] { end.Notify(); });
  CHECK(absl::IsAborted(ended));
  CHECK_THAT(std::string(ended.message()), Catch::Contains("attempt 1") && Catch::Contains("not finite"));
  site.Await(request.job_id(), v1::JOB_STATE_FAILED);
  CHECK(trace([] {}).message() == absl::StrCat("job ", request.job_id(), " does not run"));
  request.set_job_id("nobody-1");
  CHECK(absl::IsNotFound(trace([] {})));
}

}  // namespace
}  // namespace medley
