#pragma once
#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/orchestrator/fake_agents.h"
#include "coordinator/orchestrator/orchestrator.h"
#include "coordinator/store/store_under_test.h"
#include "runtime/base/clock.h"

namespace medley {

inline constexpr absl::Duration kPatience = absl::Minutes(1);

struct NotInTime : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Of 1,000 steps, whose checkpoints are on disk.
inline v1::JobSpec SavingJob(const std::string& name) {
  v1::JobSpec spec = FakeJob(name);
  spec.set_steps(1000);
  spec.mutable_checkpoint()->set_directory("/nowhere/checkpoints");  // the nodes' disk: not seen from here
  return spec;
}

// A coordinator over a store and fake agents, which can be stopped and started again.
struct OrchestratorSite {
  TemporaryDirectory directory;
  std::unique_ptr<Store> store = OpenStore(directory);
  FakeAgents agents;
  std::unique_ptr<Orchestrator> orchestrator;

  // The lease is longer than any test, nothing is waited for: nodes are lost when a test says so.
  Orchestrator::Options options = {
      .lease = absl::Hours(1), .settle = absl::ZeroDuration(), .back_off = absl::ZeroDuration()};

  OrchestratorSite() { Start(); }
  explicit OrchestratorSite(const Orchestrator::Options& with) : options(with) { Start(); }
  ~OrchestratorSite() { orchestrator.reset(); }

  void Start() {
    absl::StatusOr<std::unique_ptr<Orchestrator>> created = Orchestrator::Create(options, *store, agents);
    INFO(created.status().ToString());
    REQUIRE(created.ok());
    orchestrator = *std::move(created);
  }
  void Register(const v1::RegisterRequest& node) { REQUIRE(orchestrator->Register(node).ok()); }

  std::string Submit(const v1::JobSpec& spec) {
    v1::SubmitJobRequest request;
    *request.mutable_spec() = spec;
    const absl::StatusOr<v1::Job> job = orchestrator->Submit(request);
    INFO(job.status().ToString());
    REQUIRE(job.ok());
    return job->id();
  }

  absl::StatusOr<v1::Job> Cancel(const std::string& id, bool after_checkpoint = false) {
    v1::CancelJobRequest request;
    request.set_job_id(id);
    request.set_after_checkpoint(after_checkpoint);
    return orchestrator->Cancel(request);
  }
  // For how long.
  absl::StatusOr<absl::Duration> Renew(const std::string& node, uint64_t incarnation = 1) {
    v1::RenewRequest request;
    request.set_node(node);
    request.set_incarnation(incarnation);
    return orchestrator->Renew(request);
  }

  template <typename Wanted>
  v1::Job AwaitJob(const std::string& id, Wanted wanted, absl::Duration patience = kPatience) {
    const absl::Time deadline = Now() + patience;
    uint64_t seen = 0;
    v1::Job job;
    do {
      job = *orchestrator->journal().Get(id);
      if (wanted(job)) return job;
      seen = orchestrator->journal()
                 .AwaitChange(id, seen, std::min(deadline, Now() + absl::Milliseconds(100)))
                 .version;
    } while (Now() < deadline);
    throw NotInTime(
        absl::StrCat("job ", id, " is ", v1::JobState_Name(job.state()), " (", job.state_reason(), ")"));
  }
  v1::Job Await(const std::string& id, v1::JobState state) {
    return AwaitJob(id, [&](const v1::Job& job) { return job.state() == state; });
  }

  // What the coordinator wrote into the job's log.
  std::vector<std::string> Log(const std::string& id) {
    orchestrator->journal().Flush();
    std::vector<std::string> lines;
    const std::vector<v1::LogLine> log = *store->ListLogs(id, 1000);
    for (const v1::LogLine& line : log) {
      if (line.source() == "coordinator") lines.push_back(line.text());
    }
    return lines;
  }
  // The states that it went through, as the log has them.
  std::vector<std::string> States(const std::string& id) {
    static const std::set<std::string> kNames = {"queued",    "profiling", "planning",
                                                 "launching", "running",   "recovering",
                                                 "done",      "failed",    "cancelled"};
    std::vector<std::string> states;
    for (const std::string& line : Log(id)) {
      const std::string word = line.substr(0, line.find(':'));
      if (kNames.count(word) > 0) states.push_back(word);
    }
    return states;
  }
  bool AllDevicesAreFree() {
    for (const v1::Node& node : orchestrator->Nodes()) {
      if (!node.jobs().empty()) return false;
    }
    return true;
  }
};

// All that are known among the devices that were asked for.
inline std::vector<v1::LinkProfile> LinksOf(const absl::StatusOr<Orchestrator::KnownLinks>& links) {
  REQUIRE(links.ok());
  std::vector<v1::LinkProfile> all;
  links->table.ForEachAmong(links->devices, [&](const v1::LinkProfile& link) {
    all.push_back(link);
    return true;
  });
  return all;
}

}  // namespace medley
