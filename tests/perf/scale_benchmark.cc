// A coordinator with thousands of agents: starts medley-coordinator, has simulated agents register and renew their leases
// over the loopback, each by a connection of its own, and asks it meanwhile as users do. Prints `key value` lines.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "coordinator/cluster/lease_table.h"
#include "proto/medley/v1/coordinator.grpc.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"
#include "tests/perf/coordinator_process.h"
#include "tests/perf/simulated_agents.h"

namespace medley {
namespace {

constexpr int kRegistrationsTogether = 64;
constexpr absl::Duration kBetweenQuestions = absl::Milliseconds(50);

// Seconds that calls took, and how many failed. Thread-safe.
class Latencies {
 public:
  void Add(absl::Duration took, bool ok) {
    MutexLock lock(mutex_);
    seconds_.push_back(absl::ToDoubleSeconds(took));
    failed_ += ok ? 0 : 1;
  }
  void Print(const std::string& what) {
    MutexLock lock(mutex_);
    std::sort(seconds_.begin(), seconds_.end());
    const auto at = [&](double part) {
      return seconds_.empty() ? 0 : 1e3 * seconds_[static_cast<size_t>(part * (seconds_.size() - 1))];
    };
    std::printf("scale_%s_p50_ms %.2f\nscale_%s_p99_ms %.2f\nscale_%s_failed %d of %zu\n", what.c_str(),
                at(0.5), what.c_str(), at(0.99), what.c_str(), failed_, seconds_.size());
  }

 private:
  Mutex mutex_;
  std::vector<double> seconds_ ABSL_GUARDED_BY(mutex_);
  int failed_ ABSL_GUARDED_BY(mutex_) = 0;
};

struct Agent {
  std::unique_ptr<v1::Registry::Stub> registry;
  v1::RegisterRequest registration;
  std::atomic<bool> is_registered = false;
};

// `answering`: that the coordinator can connect to; null: it cannot.
std::vector<Agent> MakeAgents(int count, int devices, const SimulatedAgents* answering,
                              const std::string& coordinator,
                              const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  std::vector<Agent> agents(count);
  for (int i = 0; i < count; ++i) {
    agents[i].registry = v1::Registry::NewStub(ConnectionTo(coordinator, credentials));
    v1::RegisterRequest& request = agents[i].registration;
    request.set_incarnation(static_cast<uint64_t>(i) + 1);
    v1::Node& node = *request.mutable_node();
    node.set_name(absl::StrCat("node", i));
    node.set_host(absl::StrCat("host", i));
    node.set_agent_address(answering != nullptr ? answering->AddressOf(i)
                                                : absl::StrCat("127.1.", i / 256, ".", i % 256, ":7071"));
    for (int d = 0; d < devices; ++d) {
      v1::Device& device = *node.add_devices();
      device.set_name(absl::StrCat("cpu", d));
      device.set_backend("cpu");
      device.set_kind(kSimulatedKind);
      device.add_cores(static_cast<uint32_t>(d));
      device.set_memory_bytes(uint64_t{1} << 33);
    }
  }
  return agents;
}

// Calls under way, and waiting until there are few.
class Window {
 public:
  void Enter(int most) {
    MutexLock lock(mutex_);
    changed_.WaitUntil(mutex_, absl::InfiniteFuture(), [&] { return inside_ < most; });
    ++inside_;
  }
  void Leave() {
    MutexLock lock(mutex_);
    --inside_;
    changed_.NotifyAll();
  }
  void AwaitEmpty() {
    MutexLock lock(mutex_);
    changed_.WaitUntil(mutex_, absl::InfiniteFuture(), [&] { return inside_ == 0; });
  }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  int inside_ ABSL_GUARDED_BY(mutex_) = 0;
};

// `answered`: whether it went well.
template <typename Request, typename Response>
void Ask(Agent& agent,
         void (v1::Registry::StubInterface::async_interface::*method)(grpc::ClientContext*, const Request*,
                                                                      Response*,
                                                                      std::function<void(grpc::Status)>),
         const Request& request, Window& window, Latencies& latencies,
         const std::function<void(bool, const Response&)>& answered) {
  struct Call {
    grpc::ClientContext context;
    Request request;
    Response response;
    absl::Time begun = Now();
  };
  const auto call = std::make_shared<Call>();
  call->request = request;
  call->context.set_deadline(ToSystemClock(Now() + absl::Seconds(30)));
  (agent.registry->async()->*method)(&call->context, &call->request, &call->response,
                                     [call, answered, &window, &latencies](const grpc::Status& status) {
                                       latencies.Add(Now() - call->begun, status.ok());
                                       answered(status.ok(), call->response);
                                       window.Leave();
                                     });
}

void Register(Agent& agent, Window& window, Latencies& latencies) {
  Ask<v1::RegisterRequest, v1::RegisterResponse>(
      agent, &v1::Registry::StubInterface::async_interface::Register, agent.registration, window, latencies,
      [&agent](bool ok, const v1::RegisterResponse&) { agent.is_registered = ok; });
}

void RegisterAll(std::vector<Agent>& agents, Latencies& latencies) {
  Window window;
  for (Agent& agent : agents) {
    window.Enter(kRegistrationsTogether);
    Register(agent, window, latencies);
  }
  window.AwaitEmpty();
}

// All agents that have registered one after another, evenly spread, until `stop`. Who has lost its lease registers
// again; how many did.
int Renew(std::vector<Agent>& agents, const std::atomic<bool>& stop, Latencies& latencies) {
  Window window;
  Latencies again;
  // All have leases of one length, as long as the newest answer says.
  std::atomic<double> lease_seconds = kLeaseSeconds;
  std::atomic<int> lost = 0;
  absl::Time next = Now();
  for (size_t i = 0; !stop; i = (i + 1) % agents.size()) {
    next += absl::Seconds(lease_seconds / 3) / static_cast<int64_t>(agents.size());
    absl::SleepFor(next - Now());
    Agent& agent = agents[i];
    if (!agent.is_registered) continue;
    window.Enter(1 << 20);
    v1::RenewRequest request;
    request.set_node(agent.registration.node().name());
    request.set_incarnation(agent.registration.incarnation());
    Ask<v1::RenewRequest, v1::RenewResponse>(agent, &v1::Registry::StubInterface::async_interface::Renew,
                                             request, window, latencies,
                                             [&](bool ok, const v1::RenewResponse& renewed) {
                                               if (ok) lease_seconds = renewed.lease_seconds();
                                               if (ok) return;
                                               ++lost;
                                               window.Enter(1 << 20);
                                               Register(agent, window, again);
                                             });
  }
  window.AwaitEmpty();
  return lost;
}

// `medley status` and `medley nodes`, again and again; how many nodes were alive at the end.
int AskAsUsers(v1::Coordinator::Stub& coordinator, absl::Duration time, Latencies& status, Latencies& nodes) {
  int alive = 0;
  for (const absl::Time end = Now() + time; Now() < end; absl::SleepFor(kBetweenQuestions)) {
    {
      grpc::ClientContext context;
      const absl::Time begun = Now();
      const auto reader = coordinator.ListJobs(&context, v1::ListJobsRequest());
      v1::ListJobsResponse part;
      while (reader->Read(&part)) continue;
      const bool ok = reader->Finish().ok();
      status.Add(Now() - begun, ok);
    }
    grpc::ClientContext context;
    v1::ListNodesResponse all;
    const absl::Time begun = Now();
    const bool ok = coordinator.ListNodes(&context, v1::ListNodesRequest(), &all).ok();
    nodes.Add(Now() - begun, ok);
    alive = static_cast<int>(
        std::count_if(all.nodes().begin(), all.nodes().end(), [](const v1::Node& n) { return n.alive(); }));
  }
  return alive;
}

// A job that waits, for a device that never comes.
bool SubmitWaitingJob(v1::Coordinator::Stub& coordinator) {
  v1::SubmitJobRequest request;
  v1::JobSpec& spec = *request.mutable_spec();
  spec.set_name("waits");
  v1::Gpt2Spec& model = *spec.mutable_model()->mutable_gpt2();
  model.set_layers(2);
  model.set_hidden(8);
  model.set_heads(2);
  spec.mutable_data()->set_train("/data/train.txt");
  spec.mutable_batch()->set_sequences(4);
  spec.mutable_batch()->set_sequence_length(8);
  spec.set_steps(3);
  spec.mutable_constraints()->add_devices("nobody/cpu0");
  grpc::ClientContext context;
  v1::SubmitJobResponse response;
  return coordinator.SubmitJob(&context, request, &response).ok();
}

void Run(const std::string& program, const std::string& directory, int count, int devices, double seconds,
         bool with_tls, bool reachable) {
  std::optional<Certificates> certificates;
  if (with_tls) certificates.emplace(directory);
  const CoordinatorProcess coordinator(program, directory, certificates);
  std::optional<SimulatedAgents> answering;
  if (reachable) answering.emplace(count, certificates);
  std::vector<Agent> agents = MakeAgents(count, devices, answering ? &*answering : nullptr,
                                         coordinator.address(), CredentialsOf(certificates, v1::ROLE_AGENT));
  const double idle_mib = coordinator.StatusOf("VmRSS:") / 1024;
  Latencies registered, renewed, status, nodes;
  const absl::Time begun = Now();
  std::atomic<bool> stop = false;
  int lost = 0;
  std::thread renewing([&] { lost = Renew(agents, stop, renewed); });
  RegisterAll(agents, registered);
  const double registration_seconds = absl::ToDoubleSeconds(Now() - begun);
  const auto users = v1::Coordinator::NewStub(
      ConnectionTo(coordinator.address(), CredentialsOf(certificates, v1::ROLE_OPERATOR)));
  // The first leases are as short as those of few.
  absl::SleepFor(absl::Seconds(kLeaseSeconds + count / kMostRenewalsPerSecond));
  // What renewing alone costs, then with a job that waits, then with users, too.
  const auto cpu_share = [&](const auto& meanwhile) {
    const absl::Time from = Now();
    const double before = coordinator.CpuSeconds();
    meanwhile();
    return (coordinator.CpuSeconds() - before) / absl::ToDoubleSeconds(Now() - from);
  };
  const double share = cpu_share([&] { absl::SleepFor(absl::Seconds(seconds)); });
  if (!SubmitWaitingJob(*users)) throw std::runtime_error("the coordinator refuses a job");
  const double share_with_job = cpu_share([&] { absl::SleepFor(absl::Seconds(seconds)); });
  int alive = 0;
  const double share_with_users =
      cpu_share([&] { alive = AskAsUsers(*users, absl::Seconds(seconds), status, nodes); });
  std::printf("scale_agents %d\nscale_devices %d\nscale_registration_seconds %.2f\n", count, count * devices,
              registration_seconds);
  registered.Print("register");
  std::printf(
      "scale_alive %d\nscale_coordinator_cpu_share %.3f\nscale_coordinator_cpu_share_with_waiting_job %.3f\n"
      "scale_coordinator_cpu_share_with_users %.3f\n",
      alive, share, share_with_job, share_with_users);
  std::printf(
      "scale_coordinator_resident_mib %.1f\nscale_coordinator_idle_mib %.1f\nscale_coordinator_threads "
      "%.0f\n",
      coordinator.StatusOf("VmRSS:") / 1024, idle_mib, coordinator.StatusOf("Threads:"));
  stop = true;
  renewing.join();
  std::printf("scale_leases_lost %d\n", lost);
  renewed.Print("renew");
  status.Print("status");
  nodes.Print("nodes");
}

}  // namespace
}  // namespace medley

int main(int argc, char** argv) {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);  // as the coordinator does
  CLI::App app("A coordinator with thousands of simulated agents.", "scale_benchmark");
  std::string program, directory;
  int agents = 1024, devices = 8;
  bool with_tls = false, unreachable = false;
  double seconds = 10;
  app.add_option("--coordinator", program, "medley-coordinator")->required();
  app.add_option("--directory", directory, "for its state; must exist")->required();
  app.add_option("--agents", agents)->check(CLI::Range(1, 4096));
  app.add_option("--devices", devices, "of each agent")->check(CLI::Range(1, 64));
  app.add_option("--seconds", seconds, "of each of the three measurements")->check(CLI::Range(1.0, 3600.0));
  app.add_flag("--tls", with_tls, "as agents and users reach a coordinator from elsewhere");
  app.add_flag("--unreachable", unreachable,
               "agents that register, but that the coordinator cannot connect to");
  CLI11_PARSE(app, argc, argv);
  try {
    medley::Run(program, directory, agents, devices, seconds, with_tls, !unreachable);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "scale_benchmark: %s\n", error.what());
    return 1;
  }
  return 0;
}
