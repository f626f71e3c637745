// What depends on time, in virtual time.
#include <catch2/catch.hpp>

#include "coordinator/orchestrator/orchestrator_under_test.h"

namespace medley {
namespace {

class FakeClock final : public Clock {
 public:
  absl::Time Now() const override {
    MutexLock lock(mutex_);
    return now_;
  }
  void Advance(absl::Duration by) {
    MutexLock lock(mutex_);
    now_ += by;
  }

 private:
  mutable Mutex mutex_;
  absl::Time now_ ABSL_GUARDED_BY(mutex_) = absl::FromUnixSeconds(1'000'000);
};

struct TimedSite {
  FakeClock clock;
  OrchestratorSite site{{.lease = absl::Seconds(6),
                         .settle = absl::Seconds(2),
                         .back_off = absl::Seconds(5),
                         .clock = &clock,
                         .own_thread = false}};
  Orchestrator& orchestrator() { return *site.orchestrator; }

  // Time goes by as it does for a coordinator that looks around all the time; `each` is done every half
  // second.
  void Pass(
      absl::Duration time, const std::function<void()>& each = [] {}) {
    for (absl::Duration passed; passed < time; passed += absl::Milliseconds(100)) {
      clock.Advance(absl::Milliseconds(100));
      if ((passed / absl::Milliseconds(100)) == static_cast<int>(passed / absl::Milliseconds(500)) * 5)
        each();
      orchestrator().Tick();
    }
  }
  // No time goes by, however long the threads of jobs need until the job is so.
  template <typename Wanted>
  v1::Job AtOnce(const std::string& id, Wanted wanted) {
    const absl::Time deadline = medley::Now() + kPatience;
    while (!wanted(Job(id))) {
      if (medley::Now() > deadline) throw NotInTime(Job(id).state_reason());
      orchestrator().Tick();
      absl::SleepFor(absl::Milliseconds(1));  // between looks
    }
    return Job(id);
  }
  std::vector<std::string> Alive() {
    std::vector<std::string> names;
    for (const v1::Node& node : orchestrator().Nodes()) {
      if (node.alive()) names.push_back(node.name());
    }
    return names;
  }
  v1::Job Job(const std::string& id) { return *orchestrator().journal().Get(id); }
};

using Names = std::vector<std::string>;

TEST_CASE("a renewal that came before an agent was found to be gone does not make its node usable again") {
  TimedSite timed;
  timed.site.Register(FakeNode("a"));
  timed.site.agents.SetTraining(TrainForEver);
  const std::string id = timed.site.Submit(PinnedJob("tiny", {"a/cpu0"}));
  timed.AtOnce(id, [](const v1::Job& job) { return job.state() == v1::JOB_STATE_RUNNING; });
  REQUIRE(timed.site.Renew("a").ok());  // nobody looks at it yet
  timed.site.agents.TakeDown("a:1");
  timed.site.Await(id, v1::JOB_STATE_RECOVERING);
  timed.orchestrator().Tick();
  const v1::Job job = timed.Job(id);
  CHECK(job.state() == v1::JOB_STATE_RECOVERING);
  CHECK(job.restarts() == 1);
  CHECK_THAT(job.state_reason(), Catch::EndsWith("waits for a/cpu0 (not there)"));

  timed.site.agents.BringUp("a:1");
  timed.site.agents.SetTraining(TrainThreeSteps);
  timed.clock.Advance(absl::Milliseconds(100));
  REQUIRE(timed.site.Renew("a").ok());
  CHECK(timed.AtOnce(id, [](const v1::Job& job) { return job.state() == v1::JOB_STATE_DONE; }).restarts() ==
        1);
}

TEST_CASE("a node that does not renew is lost when its lease ends, and its job goes on with the others") {
  TimedSite timed;
  timed.site.Register(FakeNode("a"));
  timed.site.Register(FakeNode("b"));
  timed.site.agents.SetTraining(TrainForEver);
  const std::string id = timed.site.Submit(FakeJob("tiny"));
  const auto renew_a = [&] { CHECK(timed.site.Renew("a").ok()); };
  const auto renew_both = [&] {
    renew_a();
    CHECK(timed.site.Renew("b").ok());
  };
  timed.Pass(absl::Seconds(3), renew_both);
  timed.site.Await(id, v1::JOB_STATE_RUNNING);
  timed.Pass(absl::Seconds(5), renew_a);
  CHECK(timed.Alive() == Names{"a", "b"});
  CHECK(timed.Job(id).restarts() == 0);
  timed.site.agents.SetTraining(TrainThreeSteps);
  timed.Pass(absl::Seconds(2), renew_a);
  CHECK(timed.Alive() == Names{"a"});
  CHECK(absl::IsNotFound(timed.site.Renew("b").status()));
  timed.site.AwaitJob(id, [](const v1::Job& job) { return job.restarts() == 1; });
  timed.Pass(absl::Seconds(1), renew_a);
  CHECK(timed.site.Await(id, v1::JOB_STATE_DONE).plan().plan().units_size() == 1);
  CHECK_THAT(timed.site.Log(id), Catch::Matchers::VectorContains(std::string(
                                     "recovering: node b is lost: its agent has not been heard of for 6s")));
}

TEST_CASE("agents are kept connected to while they are heard of") {
  TimedSite timed;
  timed.site.Register(FakeNode("a"));
  timed.site.Register(FakeNode("b"));
  timed.Pass(absl::Minutes(5), [&] { (void)timed.site.Renew("a"); });
  CHECK(timed.Alive() == Names{"a"});
  CHECK(timed.site.agents.connected() == std::set<std::string>{"a:1"});
}

TEST_CASE("of many nodes each renews less often") {
  TimedSite timed;
  const int nodes = 120;
  for (int i = 0; i < nodes; ++i) timed.site.Register(FakeNode(absl::StrCat("n", i)));
  for (int i = 0; i < nodes; ++i) CHECK(*timed.site.Renew(absl::StrCat("n", i)) == absl::Seconds(9));
  timed.Pass(absl::Seconds(8));
  CHECK(timed.Alive().size() == nodes);
  REQUIRE(timed.site.Renew("n0").ok());
  timed.Pass(absl::Seconds(7));
  CHECK(timed.Alive() == Names{"n0"});  // as it was told while there were many
  CHECK(*timed.site.Renew("n0") == absl::Seconds(6));
}

TEST_CASE("leases are renewed while a disk is waited for, and outlast a coordinator that stood still") {
  TimedSite timed;
  timed.site.Register(FakeNode("a"));
  timed.Pass(absl::Seconds(5));
  CHECK(timed.site.Renew("a").ok());  // needs no lock that a disk could hold, and counts from now
  timed.clock.Advance(absl::Seconds(5));
  CHECK(timed.site.Renew("a").ok());
  timed.clock.Advance(absl::Seconds(5));
  timed.orchestrator().Tick();
  CHECK(timed.Alive() == Names{"a"});
  const bool just_renewed = GENERATE(false, true);
  CAPTURE(just_renewed);
  if (just_renewed) CHECK(timed.site.Renew("a").ok());  // which nobody has looked at yet
  timed.clock.Advance(absl::Minutes(3));                // the process was stopped: nobody could be heard
  timed.orchestrator().Tick();
  CHECK(timed.Alive() == Names{"a"});
  timed.Pass(absl::Seconds(3));
  CHECK(timed.Alive() == Names{"a"});
  CHECK(timed.site.Renew("a").ok());
  timed.Pass(absl::Seconds(7));
  CHECK(timed.Alive().empty());
}

TEST_CASE("agents that come one after another are planned with together") {
  TimedSite timed;
  const std::string id = timed.site.Submit(FakeJob("tiny"));
  timed.Pass(absl::Seconds(1));
  CHECK_THAT(timed.Job(id).state_reason(), Catch::Contains("no agent is registered"));
  const auto renew = [&] {
    for (const char* name : {"a", "b", "c"}) (void)timed.site.Renew(name);
  };
  for (const char* name : {"a", "b", "c"}) {
    timed.site.Register(FakeNode(name));
    timed.Pass(absl::Milliseconds(700), renew);
    CHECK(timed.Job(id).state() == v1::JOB_STATE_QUEUED);
    CHECK_THAT(timed.Job(id).state_reason(), Catch::Contains("may still register"));
  }
  timed.Pass(absl::Seconds(2), renew);
  CHECK(timed.site.Await(id, v1::JOB_STATE_DONE).plan().devices_size() == 3);
}

TEST_CASE("a job that needs two devices does not fail because one came first") {
  TimedSite timed;
  v1::JobSpec spec = FakeJob("large");
  spec.mutable_model()->mutable_gpt2()->set_hidden(512);
  spec.mutable_model()->mutable_gpt2()->set_vocabulary(4096);
  spec.mutable_model()->mutable_gpt2()->set_layers(8);
  const auto small = [](const std::string& name) {
    v1::RegisterRequest node = FakeNode(name);
    node.mutable_node()->mutable_devices(0)->set_memory_bytes(350u << 20);
    return node;
  };
  const std::string id = timed.site.Submit(spec);
  timed.site.Register(small("a"));
  timed.Pass(absl::Milliseconds(700));
  timed.site.Register(small("b"));
  const auto renew = [&] {
    for (const char* name : {"a", "b"}) (void)timed.site.Renew(name);
  };
  timed.Pass(absl::Seconds(3), renew);
  CHECK(timed.site.Await(id, v1::JOB_STATE_DONE).plan().plan().units_size() == 2);

  // Where nothing more may come, it fails, and says what it lacks.
  TimedSite alone;
  alone.site.Register(small("a"));
  const std::string lonely = alone.site.Submit(spec);
  alone.Pass(absl::Seconds(7), [&] { (void)alone.site.Renew("a"); });
  const auto has_failed = [](const v1::Job& job) { return job.state() == v1::JOB_STATE_FAILED; };
  CHECK_THAT(alone.AtOnce(lonely, has_failed).state_reason(), Catch::Contains("MiB"));
}

TEST_CASE(
    "after a restart of the coordinator jobs wait for the nodes that were there, a lease long at most") {
  TimedSite timed;
  for (const char* name : {"a", "b"}) timed.site.Register(FakeNode(name));
  timed.site.orchestrator.reset();
  timed.site.Start();
  const std::string id = timed.site.Submit(FakeJob("tiny"));
  timed.site.Register(FakeNode("a"));
  const auto renew = [&] { (void)timed.site.Renew("a"); };
  timed.Pass(absl::Seconds(5), renew);
  CHECK(timed.Job(id).state() == v1::JOB_STATE_QUEUED);
  const bool comes = GENERATE(true, false);
  CAPTURE(comes);
  if (comes) timed.site.Register(FakeNode("b"));
  timed.Pass(absl::Seconds(3), [&] {
    renew();
    if (comes) (void)timed.site.Renew("b");
  });
  CHECK(timed.site.Await(id, v1::JOB_STATE_DONE).plan().plan().units_size() == (comes ? 2 : 1));
}

TEST_CASE(
    "who was lost while the coordinator was away is lost a lease after its return, and after the next one") {
  TimedSite timed;
  for (const char* name : {"a", "b", "c"}) timed.site.Register(FakeNode(name));
  v1::DeregisterRequest leave;
  leave.set_node("c");
  leave.set_incarnation(1);
  timed.orchestrator().Deregister(leave);  // so nobody misses it
  const auto restart = [&] {
    timed.site.orchestrator.reset();
    timed.site.Start();
  };
  restart();
  timed.site.Register(FakeNode("a"));
  const auto renew = [&] { (void)timed.site.Renew("a"); };
  timed.Pass(absl::Seconds(6), renew);
  CHECK(timed.orchestrator().Nodes().size() == 1);
  CHECK(absl::IsNotFound(timed.orchestrator().ForgetNode("b")));
  timed.Pass(absl::Seconds(2), renew);

  const auto check_lost = [&](double for_seconds) {
    const std::vector<v1::Node> nodes = timed.orchestrator().Nodes();
    REQUIRE(nodes.size() == 2);
    CHECK(nodes[0].alive());
    CHECK(nodes[1].name() == "b");
    CHECK_FALSE(nodes[1].alive());
    CHECK(nodes[1].seconds_since_renewal() >= for_seconds);
    CHECK_THAT(nodes[1].status(), Catch::Contains("has not been heard of for "));
    CHECK(nodes[1].agent_address() == "b:1");
    CHECK(nodes[1].devices_size() == 1);
    CHECK(timed.Alive() == Names{"a"});
  };
  check_lost(7.5);
  const std::string id = timed.site.Submit(FakeJob("tiny"));
  timed.Pass(absl::Seconds(1), renew);
  CHECK(timed.site.Await(id, v1::JOB_STATE_DONE).plan().devices_size() == 1);

  restart();
  timed.site.Register(FakeNode("a"));
  check_lost(7);  // at once: since when is known, to the second
  const std::string next = timed.site.Submit(FakeJob("tiny"));
  timed.Pass(absl::Seconds(3), renew);  // b is not waited for
  CHECK(timed.site.Await(next, v1::JOB_STATE_DONE).plan().devices_size() == 1);

  SECTION("what is forgotten stays so") {
    REQUIRE(timed.orchestrator().ForgetNode("b").ok());
    CHECK(timed.orchestrator().Nodes().size() == 1);
    restart();
    timed.site.Register(FakeNode("a"));
    timed.Pass(absl::Seconds(8), renew);
    CHECK(timed.orchestrator().Nodes().size() == 1);
  }
  SECTION("who comes back is as before") {
    timed.site.Register(FakeNode("b"));
    const auto renew_both = [&] {
      renew();
      (void)timed.site.Renew("b");
    };
    timed.Pass(absl::Seconds(3), renew_both);
    CHECK(timed.Alive() == Names{"a", "b"});
    restart();
    for (const char* name : {"a", "b"}) timed.site.Register(FakeNode(name));
    timed.Pass(absl::Seconds(8), renew_both);
    CHECK(timed.Alive() == Names{"a", "b"});
  }
  SECTION("after an hour nobody is told of it any more, nor by the next coordinator") {
    timed.Pass(absl::Hours(1), renew);
    CHECK(timed.orchestrator().Nodes().size() == 1);
    CHECK(timed.site.store->ListNodes()->size() == 1);
  }
}

TEST_CASE("restarts come ever later, and a checkpoint between them gives all of them back") {
  TimedSite timed;
  timed.site.Register(FakeNode("a"));
  const bool saves = GENERATE(false, true);
  CAPTURE(saves);
  timed.site.agents.SetTraining([&](FakeWorker& worker) -> absl::Status {
    const uint32_t step = worker.request().attempt() % 100;
    worker.Say(StepOf(step, 1));
    if (saves) worker.Say(CheckpointAt(step, "/checkpoints/tiny"));
    return absl::UnavailableError("the network is down");
  });
  v1::JobSpec spec = FakeJob("unlucky");
  spec.set_max_restarts(2);
  const std::string id = timed.site.Submit(spec);
  const auto renew = [&] { (void)timed.site.Renew("a"); };
  // At least: the next one comes at once, too, and may have come before anybody looks.
  const auto restarts_are = [](uint32_t wanted) {
    return [wanted](const v1::Job& job) { return job.restarts() >= wanted; };
  };
  timed.Pass(absl::Seconds(3), renew);  // others might have registered
  timed.AtOnce(id, restarts_are(2));
  if (saves) {
    CHECK(timed.AtOnce(id, restarts_are(3)).restarts_without_progress() <= 1);
    REQUIRE(timed.site.Cancel(id).ok());
    return;
  }
  timed.Pass(absl::Seconds(1), renew);
  CHECK_THAT(timed.Job(id).state_reason(), Catch::Contains("the network is down; tried again in "));
  timed.Pass(absl::Seconds(3), renew);
  CHECK(timed.Job(id).attempt() == 2);
  timed.Pass(absl::Seconds(2), renew);
  const v1::Job failed =
      timed.AtOnce(id, [](const v1::Job& job) { return job.state() == v1::JOB_STATE_FAILED; });
  CHECK(failed.attempt() == 3);
  CHECK_THAT(failed.state_reason(),
             Catch::Contains("the network is down") && Catch::Contains("max_restarts is 2"));
}

}  // namespace
}  // namespace medley
