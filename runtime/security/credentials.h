#pragma once
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "proto/medley/v1/config.pb.h"
#include "runtime/security/certificate.h"

namespace medley {

// Who calls: the certificate, its role as TlsConfig's grants have it. Unauthenticated: there is none, or it is not in force any more.
absl::StatusOr<Certificate> WhoCalls(const v1::TlsConfig& tls, absl::string_view certificate_pem);

// What is refused before it reaches a service; from any thread.
using Refused = std::function<void(const Identity& who, const std::string& method, const absl::Status& why)>;

// Of a server that lets in whom `tls` says, to call what rpc_roles.h says. Files that change are read again. Connections without a
// certificate stand, but may do no more than ask for health.
std::shared_ptr<grpc::ServerCredentials> ServerTls(const v1::TlsConfig& tls, Refused refused);

// Of a client, with `tls`'s certificate, to a server that has the role `server`: its certificate says so, or `tls`'s grants do, or it says
// nothing of roles and is for the host that is called.
std::shared_ptr<grpc::ChannelCredentials> ChannelTls(const v1::TlsConfig& tls, v1::Role server);

// Of a client that has no certificate yet, to such a server, whose certificate is signed by one of `authority` (PEM) instead of `tls`'s.
std::shared_ptr<grpc::ChannelCredentials> AnonymousTls(const v1::TlsConfig& tls, const std::string& authority,
                                                       v1::Role server);

// Of a client that speaks with whatever server there is. Nothing that is secret may be said to it, and nothing that it says believed.
std::shared_ptr<grpc::ChannelCredentials> UnverifiedTls();

}  // namespace medley
