// medley-coordinator: takes jobs, measures, plans, launches, watches.
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/orchestrator/orchestrator.h"
#include "coordinator/rpc/coordinator_service.h"
#include "coordinator/rpc/grpc_agent_client.h"
#include "coordinator/store/store.h"
#include "proto/medley/v1/config.pb.h"
#include "runtime/base/files/atomic_file.h"
#include "runtime/base/open_files.h"
#include "runtime/base/status_macros.h"
#include "runtime/wire/address.h"
#include "runtime/wire/grpc_channel.h"
#include "runtime/wire/yaml_message.h"

namespace medley {
namespace {

void BlockStopSignals(sigset_t& signals) {
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

absl::Status Serve(const v1::CoordinatorConfig& config, const sigset_t& signals) {
  gpr_set_log_function([](gpr_log_func_args* said) { spdlog::debug("gRPC: {}", said->message); });
  ASSIGN_OR_RETURN(const std::string listen,
                   CompleteAddress("listen_address",
                                   config.listen_address().empty() ? "127.0.0.1" : config.listen_address(),
                                   kCoordinatorPort, AnyPort::kAllowed));
  const std::string state = config.state_directory().empty() ? "medley-state" : config.state_directory();
  ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, Store::Open(state));
  GrpcAgentClient agents;
  const double lease = config.has_lease_seconds() ? config.lease_seconds() : 6;
  const double settle = config.has_settle_seconds() ? config.settle_seconds() : 2;
  ASSIGN_OR_RETURN(
      const std::unique_ptr<Orchestrator> orchestrator,
      Orchestrator::Create({.lease = absl::Seconds(lease), .settle = absl::Seconds(settle)}, *store, agents));
  CoordinatorService service(*orchestrator, *store);
  RegistryService registry(*orchestrator);
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(listen, grpc::InsecureServerCredentials(), &port);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(static_cast<int>(kMostRequest.value));
  // Who watches a job asks now and then whether this host is still there.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder.RegisterService(&service);
  builder.RegisterService(&registry);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) {
    return absl::UnavailableError(
        absl::StrCat("listen_address: cannot listen at ", listen, "; is it in use?"));
  }
  const std::string address = absl::StrCat(listen.substr(0, listen.rfind(':')), ":", port);
  if (!config.address_file().empty()) {
    RETURN_IF_ERROR(Annotate(WriteFileAtomically(config.address_file(), address + "\n"), "address_file"));
  }
  spdlog::info("coordinator listens at {}; state in {}", address, state);
  int signal = 0;
  sigwait(&signals, &signal);
  spdlog::info("stopping on {}", signal == SIGINT ? "SIGINT" : "SIGTERM");
  service.Stop();
  server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(2));
  return absl::OkStatus();
}

}  // namespace
}  // namespace medley

int main(int argc, char** argv) {
  medley::RaiseOpenFilesLimit();
  // Debian's Abseil looks for cycles at every lock of gRPC's, which costs time with thousands of agents.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  CLI::App app("Takes training jobs, plans them over the registered agents' devices, and runs them.",
               "medley-coordinator");
  std::string config_file;
  app.add_option("--config", config_file,
                 "YAML of CoordinatorConfig (proto/medley/v1/config.proto); defaults without it");
  CLI11_PARSE(app, argc, argv);
  sigset_t signals;
  medley::BlockStopSignals(signals);  // before any thread: only sigwait takes them
  medley::v1::CoordinatorConfig config;
  if (!config_file.empty()) {
    if (const absl::Status status = medley::ReadYamlFile(config_file, &config); !status.ok()) {
      std::fprintf(stderr, "medley-coordinator: %s\n", std::string(status.message()).c_str());
      return 2;
    }
  }
  spdlog::set_level(config.log_level() == 0 ? spdlog::level::info
                                            : static_cast<spdlog::level::level_enum>(config.log_level()));
  spdlog::set_pattern("%Y-%m-%d %H:%M:%S.%e %l coordinator: %v");
  const absl::Status status = medley::Serve(config, signals);
  if (!status.ok()) std::fprintf(stderr, "medley-coordinator: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : absl::IsInvalidArgument(status) ? 2 : 1;
}
