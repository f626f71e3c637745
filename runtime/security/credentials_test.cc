#include "runtime/security/credentials.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "proto/medley/v1/agent.grpc.pb.h"
#include "proto/medley/v1/coordinator.grpc.pb.h"
#include "runtime/base/mutex.h"
#include "runtime/security/rpc_roles.h"
#include "runtime/security/test_certificates.h"
#include "runtime/wire/grpc_channel.h"

namespace medley {
namespace {

// A server of all our services, which do nothing: what gets in is answered UNIMPLEMENTED.
class Server {
 public:
  explicit Server(const v1::TlsConfig& tls) {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    builder.AddListeningPort(
        "127.0.0.1:0",
        ServerTls(tls,
                  [this](const Identity& who, const std::string& method, const absl::Status&) {
                    MutexLock lock(mutex_);
                    refused_.push_back(absl::StrCat(who.name, " ", method));
                  }),
        &port_);
    for (grpc::Service* service : std::initializer_list<grpc::Service*>{&coordinator_, &registry_, &agent_})
      builder.RegisterService(service);
    server_ = builder.BuildAndStart();
    REQUIRE(port_ != 0);
  }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  std::vector<std::string> TakeRefused() {
    MutexLock lock(mutex_);
    return std::exchange(refused_, {});
  }

 private:
  v1::Coordinator::Service coordinator_;
  v1::Registry::Service registry_;
  v1::Agent::Service agent_;
  int port_ = 0;
  Mutex mutex_;
  std::vector<std::string> refused_;
  std::unique_ptr<grpc::Server> server_;
};

// Calls `method` with an empty message.
grpc::Status Call(const std::string& address, std::shared_ptr<grpc::ChannelCredentials> credentials,
                  const std::string& method) {
  grpc::GenericStub stub(OpenChannel(address, {.credentials = std::move(credentials)}));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
  grpc::ByteBuffer request(nullptr, 0), response;
  grpc::Status answer;
  absl::Notification answered;
  stub.UnaryCall(&context, method, grpc::StubOptions(), &request, &response, [&](grpc::Status status) {
    answer = std::move(status);
    answered.Notify();
  });
  answered.WaitForNotification();
  return answer;
}

const std::string kListJobs = "/medley.v1.Coordinator/GetJob";

TEST_CASE("every role may call what the table says and nothing else") {
  const TestCertificates certificates;
  Server server(certificates.Issue(v1::ROLE_COORDINATOR));
  for (const v1::Role role : {v1::ROLE_UNSPECIFIED, v1::ROLE_VIEWER, v1::ROLE_OPERATOR, v1::ROLE_ADMIN,
                              v1::ROLE_AGENT, v1::ROLE_COORDINATOR}) {
    const auto credentials = ChannelTls(certificates.Issue(role), v1::ROLE_COORDINATOR);
    for (const RpcRole& rpc : RpcRoles()) {
      const std::string method = rpc.method;
      if (method.rfind("/medley.", 0) != 0) continue;
      const grpc::Status status = Call(server.address(), credentials, method);
      INFO(RoleName(role) << " " << method << ": " << status.error_message());
      CHECK(status.error_code() ==
            (MayCall(role, method) ? grpc::StatusCode::UNIMPLEMENTED : grpc::StatusCode::PERMISSION_DENIED));
      CHECK(server.TakeRefused() == (MayCall(role, method) ? std::vector<std::string>()
                                                           : std::vector{RoleName(role) + "-1 " + method}));
    }
  }
}

TEST_CASE("without a certificate there is health, and the reason for the rest") {
  const TestCertificates certificates;
  Server server(certificates.Issue(v1::ROLE_COORDINATOR));
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = certificates.authority().certificate;
  const auto nobody = grpc::SslCredentials(options);
  CHECK(Call(server.address(), nobody, "/grpc.health.v1.Health/Check").ok());
  const grpc::Status status = Call(server.address(), nobody, kListJobs);
  CHECK(status.error_code() == grpc::StatusCode::UNAUTHENTICATED);
  CHECK(status.error_message() == "a client certificate is needed: medley certs issue makes one");
  CHECK(server.TakeRefused() == std::vector{" " + kListJobs});
}

TEST_CASE(
    "a certificate of another authority, an expired one and no TLS at all do not get as far as a call") {
  const TestCertificates certificates, others("others");
  const v1::TlsConfig served = certificates.Issue(v1::ROLE_COORDINATOR);
  Server server(served);
  v1::TlsConfig stranger = others.Issue(v1::ROLE_ADMIN);
  stranger.set_authority(served.authority());
  const v1::TlsConfig late =
      certificates.Issue("late", {.name = "late", .role = v1::ROLE_ADMIN}, absl::Minutes(-1));
  for (const auto& credentials :
       {ChannelTls(stranger, v1::ROLE_COORDINATOR), ChannelTls(late, v1::ROLE_COORDINATOR),
        std::shared_ptr<grpc::ChannelCredentials>()}) {
    CHECK(Call(server.address(), credentials, kListJobs).error_code() == grpc::StatusCode::UNAVAILABLE);
  }
  CHECK(server.TakeRefused().empty());
}

TEST_CASE("a client speaks with no server but the one that it means") {
  const TestCertificates certificates, others("others");
  const v1::TlsConfig mine = certificates.Issue(v1::ROLE_VIEWER);
  const auto said = [&](const v1::TlsConfig& served) {
    Server server(served);
    return Call(server.address(), ChannelTls(mine, v1::ROLE_COORDINATOR), kListJobs);
  };
  CHECK(said(certificates.Issue(v1::ROLE_COORDINATOR)).error_code() == grpc::StatusCode::UNIMPLEMENTED);
  // Of a site's own authority, which knows hosts and no roles.
  CHECK(said(certificates.Issue("host", {.name = "host"})).error_code() == grpc::StatusCode::UNIMPLEMENTED);
  const grpc::Status wrong = said(certificates.Issue(v1::ROLE_AGENT));
  CHECK(wrong.error_code() == grpc::StatusCode::UNAVAILABLE);
  CHECK_THAT(wrong.error_message(),
             Catch::Contains("its certificate is that of agent-1 with the role agent, not coordinator"));
  CHECK(said(others.Issue(v1::ROLE_COORDINATOR)).error_code() == grpc::StatusCode::UNAVAILABLE);
}

TEST_CASE("who has no certificate yet still knows its server, or knows that it does not") {
  const TestCertificates certificates, others("others");
  const std::string authority = certificates.authority().certificate, method = "/medley.v1.Registry/Join";
  const auto said = [&](const v1::TlsConfig& served, const std::shared_ptr<grpc::ChannelCredentials>& with) {
    Server server(served);
    return Call(server.address(), with, method).error_code();
  };
  const auto anonymous = AnonymousTls({}, authority, v1::ROLE_COORDINATOR);
  CHECK(said(certificates.Issue(v1::ROLE_COORDINATOR), anonymous) == grpc::StatusCode::UNIMPLEMENTED);
  CHECK(said(certificates.Issue(v1::ROLE_AGENT), anonymous) == grpc::StatusCode::UNAVAILABLE);
  CHECK(said(others.Issue(v1::ROLE_COORDINATOR), anonymous) == grpc::StatusCode::UNAVAILABLE);
  CHECK(said(others.Issue(v1::ROLE_COORDINATOR), UnverifiedTls()) == grpc::StatusCode::UNIMPLEMENTED);
  Server server(certificates.Issue(v1::ROLE_COORDINATOR));
  for (const char* refused : {"/medley.v1.Registry/RenewCertificate", "/medley.v1.Registry/Register",
                              "/medley.v1.Coordinator/CreateJoinToken"})
    CHECK(Call(server.address(), anonymous, refused).error_code() == grpc::StatusCode::UNAUTHENTICATED);
}

TEST_CASE("a grant goes before what the certificate says, the first that fits") {
  const TestCertificates certificates;
  v1::TlsConfig served = certificates.Issue(v1::ROLE_COORDINATOR);
  const auto grant = [&](const char* identity, v1::Role role) {
    v1::RoleGrant& one = *served.add_grants();
    one.set_identity(identity);
    one.set_role(role);
  };
  grant("spiffe://site/ops/bob", v1::ROLE_VIEWER);
  grant("spiffe://site/ops/*", v1::ROLE_OPERATOR);
  grant("admin-1", v1::ROLE_VIEWER);
  Server server(served);
  const auto may_submit = [&](const Identity& who) {
    const grpc::StatusCode code =
        Call(server.address(), ChannelTls(certificates.Issue("who", who), v1::ROLE_COORDINATOR),
             "/medley.v1.Coordinator/SubmitJob")
            .error_code();
    REQUIRE((code == grpc::StatusCode::UNIMPLEMENTED || code == grpc::StatusCode::PERMISSION_DENIED));
    return code == grpc::StatusCode::UNIMPLEMENTED;
  };
  CHECK(may_submit({.name = "spiffe://site/ops/alice"}));
  CHECK_FALSE(may_submit({.name = "spiffe://site/ops/bob"}));
  CHECK_FALSE(may_submit({.name = "spiffe://site/op"}));
  CHECK_FALSE(may_submit({.name = "admin-1", .role = v1::ROLE_ADMIN}));
  CHECK(may_submit({.name = "admin-2", .role = v1::ROLE_ADMIN}));
}

TEST_CASE("a certificate that has run out ends what an old connection may do") {
  const TestCertificates certificates;
  const KeyAndCertificate made =
      Issue(certificates.authority(), {.name = "late", .role = v1::ROLE_ADMIN}, {}, absl::Minutes(-1))
          .value();
  const absl::Status status = WhoCalls({}, made.certificate).status();
  CHECK(absl::IsUnauthenticated(status));
  CHECK_THAT(std::string(status.message()),
             Catch::StartsWith("the certificate of late was in force until 20"));
}

TEST_CASE("files that change are read again, while the server runs") {
  const TestCertificates certificates, others("others");
  const v1::TlsConfig served = certificates.Issue(v1::ROLE_COORDINATOR),
                      next = others.Issue(v1::ROLE_COORDINATOR);
  Server server(served);
  const auto before = ChannelTls(certificates.Issue(v1::ROLE_VIEWER), v1::ROLE_COORDINATOR);
  CHECK(Call(server.address(), before, kListJobs).error_code() == grpc::StatusCode::UNIMPLEMENTED);
  for (const auto& [from, to] :
       {std::pair(next.authority(), served.authority()), std::pair(next.key(), served.key()),
        std::pair(next.certificate(), served.certificate())}) {
    std::filesystem::copy_file(from, to + ".new");
    std::filesystem::rename(to + ".new", to);
  }
  const auto after = ChannelTls(others.Issue(v1::ROLE_VIEWER), v1::ROLE_COORDINATOR);
  const absl::Time patience = absl::Now() + absl::Minutes(2);
  while (Call(server.address(), after, kListJobs).error_code() != grpc::StatusCode::UNIMPLEMENTED) {
    REQUIRE(absl::Now() < patience);
    absl::SleepFor(absl::Milliseconds(50));  // between looks
  }
}

}  // namespace
}  // namespace medley
