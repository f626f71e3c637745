// A coordinator that sends the plan of one job to a thousand agents: starts medley-coordinator, has simulated agents register, each at an
// address of its own, submits a job on all of them, and notes when each has read what it is to do. Prints `key value` lines.
#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <queue>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "coordinator/orchestrator/fake_agents.h"
#include "proto/medley/v1/coordinator.grpc.pb.h"
#include "runtime/security/credentials.h"
#include "tests/perf/coordinator_process.h"
#include "tests/perf/simulated_agents.h"

namespace medley {
namespace {

// Registers all, and renews their leases until its end.
class Registrations {
 public:
  Registrations(const SimulatedAgents& agents, int count, const std::shared_ptr<grpc::Channel>& coordinator)
      : registry_(v1::Registry::NewStub(coordinator)) {
    for (int i = 0; i < count; ++i) {
      v1::RegisterRequest request = FakeNode(absl::StrCat("n", i));
      request.mutable_node()->set_agent_address(agents.AddressOf(i));
      grpc::ClientContext context;
      v1::RegisterResponse response;
      const grpc::Status status = registry_->Register(&context, request, &response);
      if (!status.ok()) throw std::runtime_error("registering failed: " + status.error_message());
      due_.push({absl::Now() + absl::Seconds(response.lease_seconds() / 3), request.node().name()});
      RenewWhatIsDue();
    }
    thread_ = std::thread([this] {
      for (; !stop_; absl::SleepFor(absl::Milliseconds(5))) RenewWhatIsDue();
    });
  }
  ~Registrations() {
    stop_ = true;
    thread_.join();
  }
  int lost() const { return lost_; }

 private:
  void RenewWhatIsDue() {
    while (!stop_ && due_.top().first <= absl::Now()) {
      v1::RenewRequest request;
      request.set_node(due_.top().second);
      request.set_incarnation(1);
      due_.pop();
      grpc::ClientContext context;
      v1::RenewResponse response;
      if (!registry_->Renew(&context, request, &response).ok()) ++lost_;
      due_.push({absl::Now() + absl::Seconds(response.lease_seconds() / 3), request.node()});
    }
  }

  const std::unique_ptr<v1::Registry::Stub> registry_;
  using Due = std::pair<absl::Time, std::string>;  // a node
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::atomic<bool> stop_ = false;
  std::atomic<int> lost_ = 0;
  std::thread thread_;
};

v1::Job RunToEnd(v1::Coordinator::Stub& coordinator, const Registrations& registrations,
                 const v1::JobSpec& spec) {
  v1::SubmitJobRequest request;
  *request.mutable_spec() = spec;
  v1::SubmitJobResponse submitted;
  grpc::ClientContext submitting;
  const grpc::Status status = coordinator.SubmitJob(&submitting, request, &submitted);
  if (!status.ok()) throw std::runtime_error("the coordinator refuses the job: " + status.error_message());
  v1::GetJobRequest asked;
  asked.set_job_id(submitted.job().id());
  while (true) {
    grpc::ClientContext context;
    v1::Job job;
    if (!coordinator.GetJob(&context, asked, &job).ok()) throw std::runtime_error("the job is gone");
    if (job.state() == v1::JOB_STATE_DONE) return job;
    if (job.state() == v1::JOB_STATE_FAILED)
      throw std::runtime_error("the job failed: " + job.state_reason());
    if (registrations.lost() > 0) throw std::runtime_error("leases were lost: " + job.state_reason());
    absl::SleepFor(absl::Milliseconds(200));
  }
}

void Run(const std::string& program, const std::string& directory, int count, bool with_tls) {
  std::optional<Certificates> certificates;
  if (with_tls) certificates.emplace(directory);
  const CoordinatorProcess coordinator(program, directory, certificates);
  SimulatedAgents agents(count, certificates);
  const Registrations registrations(
      agents, count, ConnectionTo(coordinator.address(), CredentialsOf(certificates, v1::ROLE_AGENT)));
  const auto users = v1::Coordinator::NewStub(
      ConnectionTo(coordinator.address(), CredentialsOf(certificates, v1::ROLE_OPERATOR)));
  std::vector<std::string> devices;
  for (int i = 0; i < count; ++i) devices.push_back(absl::StrCat("n", i, "/cpu0"));
  const v1::Job job = RunToEnd(*users, registrations, PinnedJob("push", devices));
  double launching_at = job.submitted_at_seconds();
  for (const v1::StateTime& past : job.past()) {
    if (past.state() == v1::JOB_STATE_LAUNCHING) break;
    launching_at += past.seconds();
  }
  std::vector<double> seconds;
  for (const double at : agents.read_at_seconds()) seconds.push_back(at - launching_at);
  std::sort(seconds.begin(), seconds.end());
  if (seconds.size() != devices.size()) throw std::runtime_error("not every agent was given the plan");
  const auto quantile = [&](double part) { return seconds[static_cast<size_t>(part * (count - 1))]; };
  std::printf(
      "plan_push_agents %d\nplan_push_message_bytes %zu\nplan_push_seconds_first %.3f\nplan_push_seconds_p50 "
      "%.3f\nplan_push_seconds_p99 "
      "%.3f\nplan_push_seconds_max %.3f\nplan_push_before_seconds %.2f\n",
      count, agents.message_bytes(), seconds.front(), quantile(0.5), quantile(0.99), seconds.back(),
      launching_at - job.submitted_at_seconds());
}

}  // namespace
}  // namespace medley

int main(int argc, char** argv) {
  CLI::App app("A coordinator that sends a plan to a thousand simulated agents.", "plan_push_benchmark");
  std::string program, directory;
  int agents = 1000;
  bool with_tls = false;
  app.add_option("--coordinator", program, "medley-coordinator")->required();
  app.add_option("--directory", directory, "for its state; must exist")->required();
  app.add_option("--agents", agents)->check(CLI::Range(2, 4096));
  app.add_flag("--tls", with_tls, "as a coordinator reaches agents elsewhere");
  CLI11_PARSE(app, argc, argv);
  try {
    medley::Run(program, directory, agents, with_tls);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "plan_push_benchmark: %s\n", error.what());
    return 1;
  }
  return 0;
}
