#pragma once
#include <grpcpp/server.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/daemon/rpc_figures.h"
#include "runtime/security/credentials.h"

namespace medley {

struct ServerOptions {
  std::string listen_address;          // "host:port"
  const v1::TlsConfig* tls = nullptr;  // null: in the clear
  std::string http_address;  // of the daemon's web server, which is checked alike; empty: there is none
  bool insecure = false;     // in the clear also where others reach an address
  Refused refused;
  RpcFigures* figures = nullptr;  // of its calls, if it is given
  // With tls: a connection that has stood for so long is for no further calls, which go to a new one, with the certificates of then.
  // Calls that are under way go on, for `connection_grace` more at most: longer than any preparation or measurement takes, and streams
  // that last longer are taken up again by who reads them.
  absl::Duration connection_age = absl::Minutes(10), connection_grace = absl::Hours(24);
  std::vector<grpc::Service*> services;  // outlive the server
};

// What a daemon's configuration, which outlives them, says of its server.
template <typename Config>
ServerOptions ServerOptionsOf(const Config& config) {
  return {.listen_address = config.listen_address(),
          .tls = config.has_tls() ? &config.tls() : nullptr,
          .http_address = config.http_address(),
          .insecure = config.insecure()};
}

struct RunningServer {
  std::string address;  // "host:port", with the port that is listened at
  std::unique_ptr<grpc::Server> server;
};

// What is wrong with how a daemon is to be reached. InvalidArgument: certificates that cannot be shown, or an address, named by its
// field, that others reach, in the clear, without `insecure`. FailedPrecondition: certificates that are not in force (CheckTls).
absl::Status CheckServer(const ServerOptions& options);

// Whether a daemon could listen at both addresses now: for who would leave something behind before it serves. Unavailable: one is
// in use or not this machine's; the message names the field, the address and the cause.
absl::Status CheckFree(const ServerOptions& options);

// Serves, beside the services, gRPC's health and reflection. Errors of CheckServer; Unavailable: the address is in use or not this
// machine's.
absl::StatusOr<RunningServer> StartServer(const ServerOptions& options);

}  // namespace medley
