// medley-coordinator: takes jobs, measures, plans, launches, watches.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/joining/joining.h"
#include "coordinator/orchestrator/orchestrator.h"
#include "coordinator/rpc/coordinator_service.h"
#include "coordinator/rpc/grpc_agent_client.h"
#include "coordinator/rpc/registry_service.h"
#include "coordinator/store/backup.h"
#include "coordinator/store/periodic_check.h"
#include "coordinator/store/scheduled_backups.h"
#include "coordinator/store/store.h"
#include "coordinator/web/coordinator_site.h"
#include "proto/medley/v1/config.pb.h"
#include "runtime/base/files/atomic_file.h"
#include "runtime/base/status_macros.h"
#include "runtime/daemon/grpc_server.h"
#include "runtime/daemon/run_daemon.h"
#include "runtime/daemon/start_web.h"
#include "runtime/log/log.h"
#include "runtime/wire/address.h"
#include "runtime/wire/message_protection_codec.h"

namespace medley {
namespace {

constexpr absl::Duration kLookAtStoreEvery = absl::Hours(24);

// What is left out is what it says in config.proto, so that --show-config shows it.
absl::Status FillDefaults(v1::CoordinatorConfig& config) {
  if (config.listen_address().empty()) config.set_listen_address("127.0.0.1");
  ASSIGN_OR_RETURN(
      *config.mutable_listen_address(),
      CompleteAddress("listen_address", config.listen_address(), kCoordinatorPort, AnyPort::kAllowed));
  if (config.state_directory().empty()) config.set_state_directory("medley-state");
  if (!config.has_lease_seconds()) config.set_lease_seconds(6);
  if (!config.has_settle_seconds()) config.set_settle_seconds(2);
  if (config.most_waiting_jobs() == 0) config.set_most_waiting_jobs(10'000);
  if (!config.has_audit_days()) config.set_audit_days(400);
  if (config.message_protection() == v1::MESSAGE_PROTECTION_UNSPECIFIED)
    config.set_message_protection(v1::MESSAGE_PROTECTION_NONE);
  if (config.has_backup()) {
    v1::BackupConfig& backup = *config.mutable_backup();
    if (!backup.has_every_hours()) backup.set_every_hours(24);
    if (!backup.has_keep()) backup.set_keep(7);
  }
  if (config.log_level() == v1::LOG_LEVEL_UNSPECIFIED) config.set_log_level(v1::LOG_LEVEL_INFO);
  if (config.log_format() == v1::LOG_FORMAT_UNSPECIFIED) config.set_log_format(v1::LOG_FORMAT_TEXT);
  RETURN_IF_ERROR(CheckServer(ServerOptionsOf(config)));
  return CheckJoin(config);
}

bool IsAlive(const std::vector<v1::Node>& nodes, const std::string& name) {
  return std::any_of(nodes.begin(), nodes.end(),
                     [&](const v1::Node& node) { return node.alive() && node.name() == name; });
}

std::unique_ptr<ScheduledBackups> StartBackups(const v1::BackupConfig& config, Store& store) {
  return std::make_unique<ScheduledBackups>(
      store,
      BackupSchedule{.directory = config.directory(),
                     .every = absl::Hours(config.every_hours()),
                     .keep = static_cast<int>(config.keep())},
      [](const absl::StatusOr<std::string>& file) {
        if (file.ok())
          LogInfo(absl::StrCat("backed the store up to ", *file));
        else
          LogError(absl::StrCat("backup: ", file.status().message(), "; it is tried again within the hour"));
      });
}

absl::Status Serve(const Daemon& daemon, const v1::CoordinatorConfig& config) {
  // Debian's Abseil looks for cycles at every lock of gRPC's, which costs time with thousands of agents.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // Before there is a store, which who mistook the port did not ask for.
  RETURN_IF_ERROR(CheckFree(ServerOptionsOf(config)));
  ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, Store::Open(config.state_directory()));
  GrpcAgentClient agents(config.has_tls() ? ChannelTls(config.tls(), v1::ROLE_AGENT) : nullptr);
  ASSIGN_OR_RETURN(
      const std::unique_ptr<Orchestrator> orchestrator,
      Orchestrator::Create(
          {.lease = absl::Seconds(config.lease_seconds()),
           .settle = absl::Seconds(config.settle_seconds()),
           .most_waiting_jobs = config.most_waiting_jobs(),
           .allowed_directories = {config.allowed_directories().begin(), config.allowed_directories().end()},
           .message_protection = DecodeMessageProtection(config.message_protection())},
          *store, agents));
  Audit audit(*store);
  const absl::Duration audit_age = absl::Hours(24) * config.audit_days();
  audit.DropOlderThan(audit_age);
  const PeriodicCheck check(*store, kLookAtStoreEvery, [&](const absl::Status& found) {
    audit.DropOlderThan(audit_age);
    if (!found.ok())
      LogError(absl::StrCat(found.message(),
                            "; `medley backup` what can be read, and restore a backup from before"));
  });
  const std::unique_ptr<ScheduledBackups> backups =
      config.has_backup() ? StartBackups(config.backup(), *store) : nullptr;
  Joining joining(
      *store, {.join = config.has_join() ? std::optional(config.join()) : std::nullopt,
               .tls = config.tls(),
               .is_alive = [&](const std::string& node) { return IsAlive(orchestrator->Nodes(), node); }});
  CoordinatorService service(*orchestrator, *store, joining, audit);
  RegistryService registry(*orchestrator, joining, audit);
  ServerOptions options = ServerOptionsOf(config);
  RpcFigures figures;
  options.figures = &figures;
  options.refused = [&](const Identity& who, const std::string& method, const absl::Status& why) {
    figures.CountRefusal();
    audit.WriteRefusal(who, method, why);
  };
  options.services = {&service, &registry};
  ASSIGN_OR_RETURN(const RunningServer running, StartServer(options));
  const std::string& address = running.address;
  if (!config.address_file().empty()) {
    RETURN_IF_ERROR(Annotate(WriteFileAtomically(config.address_file(), address + "\n"), "address_file"));
  }
  WebApi api(*running.server, options.refused);
  CoordinatorSite site(*orchestrator, *store, figures, api, options.tls, backups.get());
  ASSIGN_OR_RETURN(const std::unique_ptr<WebServer> web,
                   StartWeb(config.http_address(), config.http_address_file(), options.tls,
                            [&](const WebRequest& request) { return site.Answer(request); }));
  if (web != nullptr) LogInfo(absl::StrCat("dashboard, JSON and metrics at ", web->address()));
  LogInfo(absl::StrCat("coordinator listens at ", address, "; state in ", config.state_directory()));
  // A coordinator that hangs holds the lock that nodes are under.
  ServeUntilStopped(daemon, absl::StrCat("listens at ", address), [&] { (void)orchestrator->Nodes(); });
  api.Stop();
  service.Stop();
  running.server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(2));
  return absl::OkStatus();
}

}  // namespace
}  // namespace medley

int main(int argc, char** argv) {
  medley::v1::CoordinatorConfig config;
  medley::Daemon daemon{
      .name = "medley-coordinator",
      .log_name = "coordinator",
      .description = "Takes training jobs, plans them over the registered agents' devices, and runs them.",
      .environment_prefix = "MEDLEY_COORDINATOR_",
      .config = &config,
      .fill_defaults = [](google::protobuf::Message* message) {
        return medley::FillDefaults(static_cast<medley::v1::CoordinatorConfig&>(*message));
      }};
  daemon.restore = [&](const std::string& file) {
    return medley::RestoreStore(file, config.state_directory());
  };
  daemon.serve = [&] { return medley::Serve(daemon, config); };
  return medley::RunDaemon(argc, argv, daemon);
}
