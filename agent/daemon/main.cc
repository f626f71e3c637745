// medley-agent: offers a node's devices to a coordinator and supervises the workers that run on them.
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "agent/daemon/advertised_address.h"
#include "agent/daemon/agent_metrics.h"
#include "agent/discovery/discovery.h"
#include "agent/discovery/network_cards.h"
#include "agent/joining/certificate_renewal.h"
#include "agent/joining/join_coordinator.h"
#include "agent/rpc/agent_service.h"
#include "agent/rpc/registration.h"
#include "agent/supervisor/kernel_reports.h"
#include "agent/supervisor/supervisor.h"
#include "kernels/backends.h"
#include "proto/medley/v1/config.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"
#include "runtime/daemon/certificate_figure.h"
#include "runtime/daemon/grpc_server.h"
#include "runtime/daemon/run_daemon.h"
#include "runtime/daemon/service_manager.h"
#include "runtime/daemon/start_web.h"
#include "runtime/log/log.h"
#include "runtime/web/metrics_answer.h"
#include "runtime/wire/address.h"
#include "runtime/wire/message_protection_codec.h"

namespace medley {
namespace {

constexpr int kLookMilliseconds = 50;  // whether there is still something to wait for

std::string HostName() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

std::string WorkerProgram() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "medley-worker";
}

absl::Status FillDefaults(v1::AgentConfig& config) {
  if (config.name().empty()) config.set_name(HostName());
  if (config.coordinator_address().empty()) config.set_coordinator_address("127.0.0.1");
  if (config.listen_address().empty()) config.set_listen_address("127.0.0.1");
  ASSIGN_OR_RETURN(*config.mutable_coordinator_address(),
                   CompleteAddress("coordinator_address", config.coordinator_address(), kCoordinatorPort));
  ASSIGN_OR_RETURN(*config.mutable_listen_address(),
                   CompleteAddress("listen_address", config.listen_address(), 0, AnyPort::kAllowed));
  if (config.links().empty()) config.set_links("automatic");
  if (config.message_protection() == v1::MESSAGE_PROTECTION_UNSPECIFIED)
    config.set_message_protection(v1::MESSAGE_PROTECTION_NONE);
  if (config.log_level() == v1::LOG_LEVEL_UNSPECIFIED) config.set_log_level(v1::LOG_LEVEL_INFO);
  if (config.log_format() == v1::LOG_FORMAT_UNSPECIFIED) config.set_log_format(v1::LOG_FORMAT_TEXT);
  if (!config.has_stop_within_seconds()) config.set_stop_within_seconds(10);
  if (!config.has_work_without_coordinator_seconds()) config.set_work_without_coordinator_seconds(86400);
  RETURN_IF_ERROR(CompleteAdvertisedAddress(config));
  if (config.links() != "automatic" && config.links() != "tcp" && config.links() != "shared-memory") {
    return absl::InvalidArgumentError(
        absl::StrCat("links: \"", config.links(), "\" is none of: automatic, tcp, shared-memory"));
  }
  if (access(WorkerProgram().c_str(), X_OK) != 0) {
    return absl::NotFoundError(
        absl::StrCat(WorkerProgram(), " is not there: medley-worker belongs beside medley-agent"));
  }
  RETURN_IF_ERROR(CheckJoining(config));
  // Who joins gets the files that are looked at here.
  if (!NeedsToJoin(config)) RETURN_IF_ERROR(CheckServer(ServerOptionsOf(config)));
  if (config.devices().empty()) return absl::OkStatus();  // they are looked for at the start
  ASSIGN_OR_RETURN(const std::vector<v1::Device> devices,
                   CompleteDevices({config.devices().begin(), config.devices().end()}, AllBackends()));
  config.mutable_devices()->Assign(devices.begin(), devices.end());
  return absl::OkStatus();
}

bool IsAskedAgainWithin(absl::Duration wait) {
  return IsAskedAgain(static_cast<int>(absl::ToInt64Milliseconds(wait)));
}

absl::Status Serve(const Daemon& daemon, const v1::AgentConfig& config) {
  // Workers' warnings about their transports are for who asks for them.
  setenv("UCX_LOG_LEVEL", "error", /*overwrite=*/0);
  std::signal(SIGCHLD, SIG_DFL);  // a parent may have it ignored, and then no worker's end could be told
  if (NeedsToJoin(config)) {
    RETURN_IF_ERROR(CheckFree(ServerOptionsOf(config)));  // before its token is used
    const absl::Status joined = JoinCoordinator(config, IsAskedAgainWithin);
    if (absl::IsCancelled(joined)) return absl::OkStatus();
    RETURN_IF_ERROR(joined);
  }
  std::vector<v1::Device> devices(config.devices().begin(), config.devices().end());
  if (devices.empty()) {
    ASSIGN_OR_RETURN(devices, CompleteDevices(DiscoverDevices(AllBackends()), AllBackends()));
  }
  for (const v1::Device& device : devices)
    LogInfo(absl::StrCat("device ", device.name(), ": ", device.kind()));

  Supervisor supervisor(
      {.node_name = config.name(),
       .worker_program = WorkerProgram(),
       .devices = devices,
       .network_devices = {config.network_devices().begin(), config.network_devices().end()},
       .links = config.links()});
  KernelReports kernels({.node_name = config.name(), .worker_program = WorkerProgram(), .devices = devices});
  AgentService service(supervisor, kernels,
                       {config.allowed_directories().begin(), config.allowed_directories().end()},
                       DecodeMessageProtection(config.message_protection()));
  ServerOptions options = ServerOptionsOf(config);
  RpcFigures figures;
  options.figures = &figures;
  options.refused = [&](const Identity& who, const std::string& method, const absl::Status& why) {
    figures.CountRefusal();
    LogWarning(absl::StrCat(method, " of \"", who.name, "\" was refused: ", why.message()));
  };
  options.services = {&service};
  ASSIGN_OR_RETURN(const RunningServer running, StartServer(options));
  v1::Node node;
  node.set_name(config.name());
  node.set_host(MachineIdentity());
  node.set_site(config.site());
  node.set_rack(config.rack());
  node.set_host_memory_bytes(config.has_host_memory_bytes()
                                 ? config.host_memory_bytes()
                                 : static_cast<uint64_t>(OfferedHostMemory().value));
  node.set_network_cards(config.has_network_cards() ? config.network_cards()
                                                    : FindNetworkCards({config.network_devices().begin(),
                                                                        config.network_devices().end()},
                                                                       config.links() == "tcp"));
  node.set_message_protection(config.message_protection());
  node.set_protects_messages(true);
  node.set_agent_address(AdvertisedAddress(config, running.address));
  node.mutable_devices()->Add(devices.begin(), devices.end());
  ASSIGN_OR_RETURN(const std::unique_ptr<WebServer> web,
                   StartWeb(config.http_address(), config.http_address_file(), options.tls,
                            [&](const WebRequest& request) {
                              return AnswerMetrics(request, [&](OpenMetrics& metrics) {
                                figures.AddTo(metrics);
                                AddCertificateFigure(options.tls, absl::Now(), metrics);
                                AddAgentFigures(node, supervisor.TasksAtWork(), metrics);
                              });
                            }));
  if (web != nullptr) LogInfo(absl::StrCat("metrics at ", web->address()));
  LogInfo(absl::StrCat("agent ", node.name(), " listens at ", node.agent_address()));
  {
    Registration registration(
        {.coordinator_address = config.coordinator_address(),
         .credentials = config.has_tls() ? ChannelTls(config.tls(), v1::ROLE_COORDINATOR) : nullptr,
         .node = node,
         .work_without_coordinator = absl::Seconds(config.work_without_coordinator_seconds())},
        {.tasks = [&] { return supervisor.Tasks(); },
         .stop = [&](const std::string& task) { supervisor.Stop(task); },
         .lease = [&](absl::Duration lease) { supervisor.SetLease(lease); },
         .abandon = [&] { supervisor.StopAll(); }});
    std::optional<CertificateRenewal> renewal;
    if (!config.join_token_file().empty())
      renewal.emplace(CertificateRenewal::Options{
          .coordinator_address = config.coordinator_address(), .node = config.name(), .tls = config.tls()});
    // An agent that hangs holds the lock that its tasks are under.
    ServeUntilStopped(
        daemon,
        absl::StrCat("listens at ", node.agent_address(), "; coordinator: ", config.coordinator_address()),
        [&] { (void)supervisor.Tasks(); });
    // A job that saves a checkpoint now goes on elsewhere without a step lost.
    const absl::Time end = Now() + absl::Seconds(config.stop_within_seconds());
    if (!supervisor.TasksAtWork().empty() && registration.Leave(end, IsAskedAgainWithin) > 0) {
      LogInfo(absl::StrCat(config.stop_within_seconds(),
                           " s for jobs to save a checkpoint; another signal ends it at once"));
      while (!supervisor.TasksAtWork().empty() && Now() < end && !IsAskedAgain(kLookMilliseconds)) continue;
    }
  }
  supervisor.StopAll();
  running.server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  return absl::OkStatus();
}

}  // namespace
}  // namespace medley

int main(int argc, char** argv) {
  medley::v1::AgentConfig config;
  medley::Daemon daemon{.name = "medley-agent",
                        .log_name = "agent",
                        .description = "Offers this node's devices to a Medley coordinator.",
                        .environment_prefix = "MEDLEY_AGENT_",
                        .config = &config,
                        .fill_defaults = [](google::protobuf::Message* message) {
                          return medley::FillDefaults(static_cast<medley::v1::AgentConfig&>(*message));
                        }};
  daemon.serve = [&] { return medley::Serve(daemon, config); };
  return medley::RunDaemon(argc, argv, daemon);
}
