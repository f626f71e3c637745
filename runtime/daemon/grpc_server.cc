#include "runtime/daemon/grpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include "absl/strings/str_cat.h"
#include "runtime/base/can_listen.h"
#include "runtime/base/loopback.h"
#include "runtime/base/status_macros.h"
#include "runtime/wire/grpc_channel.h"

namespace medley {
namespace {

absl::Status CheckClear(const std::string& field, const std::string& address) {
  if (address.empty() || IsLoopbackHost(HostOfAddress(address))) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": others reach ", address,
                   ", and without tls they may do anything there; give tls its certificates (medley certs "
                   "makes some), or set "
                   "insecure: true where nobody but friends is on the network"));
}

}  // namespace

absl::Status CheckServer(const ServerOptions& options) {
  if (options.tls != nullptr) return CheckTls(*options.tls).status();
  if (options.insecure) return absl::OkStatus();
  RETURN_IF_ERROR(CheckClear("listen_address", options.listen_address));
  return CheckClear("http_address", options.http_address);
}

absl::Status CheckFree(const ServerOptions& options) {
  RETURN_IF_ERROR(CheckCanListen("listen_address", options.listen_address));
  return options.http_address.empty() ? absl::OkStatus()
                                      : CheckCanListen("http_address", options.http_address);
}

absl::StatusOr<RunningServer> StartServer(const ServerOptions& options) {
  RETURN_IF_ERROR(CheckServer(options));
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  // One queue for all cores: each would have pollers of its own, which wake for the same calls.
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  int port = 0;
  builder.AddListeningPort(
      options.listen_address,
      options.tls != nullptr ? ServerTls(*options.tls, options.refused) : grpc::InsecureServerCredentials(),
      &port);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(static_cast<int>(kMostRequest.value));
  // The other side asks every few seconds whether this host is still there.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  if (options.tls != nullptr) {
    const auto set = [&](const char* argument, absl::Duration duration) {
      builder.AddChannelArgument(argument, static_cast<int>(absl::ToInt64Milliseconds(duration)));
    };
    set(GRPC_ARG_MAX_CONNECTION_AGE_MS, options.connection_age);
    set(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, options.connection_grace);
  }
  if (options.figures != nullptr) {
    std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
    interceptors.push_back(options.figures->Interceptors());
    builder.experimental().SetInterceptorCreators(std::move(interceptors));
  }
  for (grpc::Service* service : options.services) builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) return CannotListen("listen_address", options.listen_address);
  return RunningServer{.address = absl::StrCat(HostOfAddress(options.listen_address), ":", port),
                       .server = std::move(server)};
}

}  // namespace medley
