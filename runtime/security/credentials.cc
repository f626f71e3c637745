#include "runtime/security/credentials.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/base/status_macros.h"
#include "runtime/security/rpc_roles.h"
#include "runtime/wire/grpc_status.h"

namespace medley {
namespace {

namespace tls_api = grpc::experimental;

constexpr unsigned kReadAgainSeconds = 5;

absl::string_view View(grpc::string_ref text) { return {text.data(), text.size()}; }

bool Fits(absl::string_view pattern, absl::string_view name) {
  return absl::EndsWith(pattern, "*") ? absl::StartsWith(name, pattern.substr(0, pattern.size() - 1))
                                      : name == pattern;
}

void Grant(const v1::TlsConfig& tls, Identity& who) {
  for (const v1::RoleGrant& grant : tls.grants()) {
    if (!Fits(grant.identity(), who.name)) continue;
    who.role = grant.role();
    return;
  }
}

std::shared_ptr<tls_api::CertificateProviderInterface> Files(const v1::TlsConfig& tls) {
  return std::make_shared<tls_api::FileWatcherCertificateProvider>(tls.key(), tls.certificate(),
                                                                   tls.authority(), kReadAgainSeconds);
}

// Looks at every call before its message is read.
class Gate : public grpc::AuthMetadataProcessor {
 public:
  Gate(const v1::TlsConfig& tls, Refused refused) : tls_(tls), refused_(std::move(refused)) {}
  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* context, OutputMetadata*,
                       OutputMetadata*) override {
    const auto path = metadata.find(":path");
    const std::string method(path == metadata.end() ? "" : View(path->second));
    if (MayCall(v1::ROLE_UNSPECIFIED, method)) return grpc::Status::OK;
    const std::vector<grpc::string_ref> shown = context->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
    const absl::StatusOr<Certificate> calls = WhoCalls(tls_, shown.empty() ? "" : View(shown.front()));
    const Identity who = calls.ok() ? calls->identity : Identity();
    absl::Status objection = calls.status();
    if (calls.ok() && !MayCall(who.role, method))
      objection = absl::PermissionDeniedError(absl::StrCat(
          method.substr(method.rfind('/') + 1), " ", WhatItNeeds(method), "; ", who.name,
          who.role == v1::ROLE_UNSPECIFIED ? " has none"
                                           : absl::StrCat(" has the role ", RoleName(who.role))));
    if (objection.ok()) return grpc::Status::OK;
    if (refused_) refused_(who, method, objection);
    return ToGrpc(objection);
  }

 private:
  const v1::TlsConfig tls_;
  const Refused refused_;
};

class ServerCheck : public tls_api::ExternalCertificateVerifier {
 public:
  ServerCheck(v1::TlsConfig tls, v1::Role server) : tls_(std::move(tls)), server_(server) {}
  bool Verify(tls_api::TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)>,
              grpc::Status* answer) override {
    *answer = ToGrpc(Check(View(request->peer_cert()), std::string(View(request->target_name()))));
    return true;  // it is answered at once
  }
  void Cancel(tls_api::TlsCustomVerificationCheckRequest*) override {}

 private:
  absl::Status Check(absl::string_view pem, const std::string& host) const {
    ASSIGN_OR_RETURN(Certificate shown, ReadCertificate(pem));
    Grant(tls_, shown.identity);
    if (shown.identity.role == server_) return absl::OkStatus();
    if (shown.identity.role != v1::ROLE_UNSPECIFIED)
      return absl::UnauthenticatedError(absl::StrCat("its certificate is that of ", shown.identity.name,
                                                     " with the role ", RoleName(shown.identity.role),
                                                     ", not ", RoleName(server_)));
    if (IsForHost(pem, host)) return absl::OkStatus();
    return absl::UnauthenticatedError(absl::StrCat("its certificate, of ", shown.identity.name,
                                                   ", is neither for ", host, " nor for a ",
                                                   RoleName(server_)));
  }
  const v1::TlsConfig tls_;
  const v1::Role server_;
};

// Of a client that believes `authorities`, to a server that has the role `server`.
tls_api::TlsChannelCredentialsOptions OptionsToward(
    const v1::TlsConfig& tls, std::shared_ptr<tls_api::CertificateProviderInterface> authorities,
    v1::Role server) {
  tls_api::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(std::move(authorities));
  options.watch_root_certs();
  options.set_verify_server_certs(true);
  options.set_check_call_host(false);
  options.set_certificate_verifier(tls_api::ExternalCertificateVerifier::Create<ServerCheck>(tls, server));
  return options;
}

}  // namespace

absl::StatusOr<Certificate> WhoCalls(const v1::TlsConfig& tls, absl::string_view certificate_pem) {
  if (certificate_pem.empty())
    return absl::UnauthenticatedError("a client certificate is needed: medley certs issue makes one");
  ASSIGN_OR_RETURN(Certificate shown, RecallCertificate(certificate_pem));
  // A connection may be older than that.
  if (absl::Now() > shown.valid_until)
    return absl::UnauthenticatedError(absl::StrCat("the certificate of ", shown.identity.name,
                                                   " was in force until ",
                                                   absl::FormatTime(shown.valid_until, absl::UTCTimeZone())));
  Grant(tls, shown.identity);
  return shown;
}

std::shared_ptr<grpc::ServerCredentials> ServerTls(const v1::TlsConfig& tls, Refused refused) {
  tls_api::TlsServerCredentialsOptions options(Files(tls));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  std::shared_ptr<grpc::ServerCredentials> made = tls_api::TlsServerCredentials(options);
  made->SetAuthMetadataProcessor(std::make_shared<Gate>(tls, std::move(refused)));
  return made;
}

std::shared_ptr<grpc::ChannelCredentials> ChannelTls(const v1::TlsConfig& tls, v1::Role server) {
  tls_api::TlsChannelCredentialsOptions options = OptionsToward(tls, Files(tls), server);
  options.watch_identity_key_cert_pairs();
  return tls_api::TlsCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> AnonymousTls(const v1::TlsConfig& tls, const std::string& authority,
                                                       v1::Role server) {
  return tls_api::TlsCredentials(
      OptionsToward(tls, std::make_shared<tls_api::StaticDataCertificateProvider>(authority), server));
}

std::shared_ptr<grpc::ChannelCredentials> UnverifiedTls() {
  tls_api::TlsChannelCredentialsOptions options;
  options.set_verify_server_certs(false);
  options.set_check_call_host(false);
  options.set_certificate_verifier(std::make_shared<tls_api::NoOpCertificateVerifier>());
  return tls_api::TlsCredentials(options);
}

}  // namespace medley
