#include <atomic>

#include "coordinator/orchestrator/orchestrator_under_test.h"

namespace medley {
namespace {

TEST_CASE("a message that was altered on its way costs an attempt, not the job") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  std::atomic<int> launches = 0;
  site.agents.SetTraining([&](FakeWorker& worker) -> absl::Status {
    if (++launches > 1) return TrainThreeSteps(worker);
    worker.Say(StepOf(1, 3.5));
    worker.Say(CheckpointAt(1, "/checkpoints/tiny/step-1"));
    return absl::DataLossError(
        "message of 4096 bytes from rank 1 (reduce channel 3 sequence 17) was altered");
  });
  v1::JobSpec spec = FakeJob("tiny");
  spec.mutable_checkpoint()->set_directory("/nowhere/checkpoints");
  const std::string id = site.Submit(spec);
  const v1::Job job = site.Await(id, v1::JOB_STATE_DONE);
  CHECK(job.restarts() == 1);
  REQUIRE(site.agents.trainings().size() == 2);
  CHECK(site.agents.trainings()[1].train().resume_from() == "/checkpoints/tiny/step-1");
  const std::vector<std::string> log = site.Log(id);
  CHECK(std::any_of(log.begin(), log.end(), [](const std::string& line) {
    return absl::StrContains(line, "recovering") && absl::StrContains(line, "from rank 1 (reduce channel 3");
  }));
}

v1::RegisterRequest ProtectingNode(const std::string& name, v1::MessageProtection least = {}) {
  v1::RegisterRequest node = FakeNode(name);
  node.mutable_node()->set_protects_messages(true);
  node.mutable_node()->set_message_protection(least);
  return node;
}

// A link with the protection that was asked for.
absl::Status ProbeAsAsked(FakeWorker& worker) {
  v1::WorkerEvent event = LinkOf(1e-5, 1e9);
  event.mutable_link()->set_message_protection(worker.request().probe().message_protection());
  worker.Say(event);
  return absl::OkStatus();
}

TEST_CASE(
    "the greatest protection that is asked for is measured, planned, run and told, and each is a link of its "
    "own") {
  OrchestratorSite site;
  site.Register(ProtectingNode("a"));
  site.Register(ProtectingNode("b", v1::MESSAGE_PROTECTION_CHECKSUM));
  site.agents.SetProbe(ProbeAsAsked);
  v1::JobSpec spec = PinnedJob("job", {"a/cpu0", "b/cpu0"});
  v1::Job job = site.Await(site.Submit(spec), v1::JOB_STATE_DONE);
  CHECK(job.plan().message_protection() == v1::MESSAGE_PROTECTION_CHECKSUM);
  CHECK(job.spec().communication().message_protection() == v1::MESSAGE_PROTECTION_UNSPECIFIED);
  CHECK_THAT(job.plan().explanation(), Catch::Contains("protected by a checksum"));
  for (const v1::PrepareRequest& request : site.agents.trainings()) {
    CHECK(request.train().spec().communication().message_protection() == v1::MESSAGE_PROTECTION_CHECKSUM);
  }
  CHECK(site.agents.probes() == 2);
  spec.mutable_communication()->set_message_protection(v1::MESSAGE_PROTECTION_ENCRYPTION);
  job = site.Await(site.Submit(spec), v1::JOB_STATE_DONE);
  CHECK(job.plan().message_protection() == v1::MESSAGE_PROTECTION_ENCRYPTION);
  CHECK(site.agents.probes() == 4);
  CHECK(site.store->ListLinks()->size() == 2);
  for (const auto& [asked, shown] :
       {std::pair{v1::MESSAGE_PROTECTION_UNSPECIFIED, v1::MESSAGE_PROTECTION_CHECKSUM},
        std::pair{v1::MESSAGE_PROTECTION_ENCRYPTION, v1::MESSAGE_PROTECTION_ENCRYPTION}}) {
    const std::vector<v1::LinkProfile> links = LinksOf(site.orchestrator->Links({}, asked));
    REQUIRE(links.size() == 1);
    CHECK(links[0].message_protection() == shown);
  }
  CHECK(LinksOf(site.orchestrator->Links({}, v1::MESSAGE_PROTECTION_NONE)).empty());
}

TEST_CASE(
    "a link through shared memory holds for every protection; one that was measured otherwise is refused") {
  OrchestratorSite site;
  site.Register(ProtectingNode("a"));
  site.Register(ProtectingNode("b"));
  std::string transport = "shared memory";
  site.agents.SetProbe([&](FakeWorker& worker) -> absl::Status {
    v1::WorkerEvent event = LinkOf(1e-5, 1e9);
    event.mutable_link()->set_transport(transport);
    worker.Say(event);
    return absl::OkStatus();
  });
  REQUIRE(site.orchestrator->MeasureLinks({}, v1::MESSAGE_PROTECTION_ENCRYPTION).ok());
  for (const auto asked :
       {v1::MESSAGE_PROTECTION_NONE, v1::MESSAGE_PROTECTION_CHECKSUM, v1::MESSAGE_PROTECTION_ENCRYPTION})
    CHECK(LinksOf(site.orchestrator->Links({}, asked)).size() == 1);
  transport = "tcp";
  const absl::Status refused =
      site.orchestrator->MeasureLinks({}, v1::MESSAGE_PROTECTION_ENCRYPTION).status();
  CHECK(absl::IsInternal(refused));
  CHECK_THAT(std::string(refused.message()),
             Catch::Contains("message_protection encryption, and was with none"));
}

TEST_CASE("agents that know of no protected messages get no job that asks for them") {
  OrchestratorSite site;
  site.Register(FakeNode("old"));
  v1::JobSpec spec = FakeJob("guarded");
  spec.mutable_communication()->set_message_protection(v1::MESSAGE_PROTECTION_ENCRYPTION);
  const std::string id = site.Submit(spec);
  site.AwaitJob(id, [](const v1::Job& job) {
    return absl::StrContains(job.state_reason(), "waits for a node whose agent knows of message_protection");
  });
  site.Register(ProtectingNode("new"));
  const v1::Job job = site.Await(id, v1::JOB_STATE_DONE);
  REQUIRE(site.agents.trainings().size() == 1);
  CHECK(site.agents.trainings()[0].train().plan().units(0).devices(0) == "new/cpu0");
  // One that names them is refused.
  v1::JobSpec named = PinnedJob("named", {"new/cpu0", "old/cpu0"});
  named.mutable_communication()->set_message_protection(v1::MESSAGE_PROTECTION_CHECKSUM);
  const v1::Job failed = site.Await(site.Submit(named), v1::JOB_STATE_FAILED);
  CHECK_THAT(failed.state_reason(),
             Catch::Contains("message_protection: checksum") && Catch::Contains("the agents of old are"));
}

}  // namespace
}  // namespace medley
