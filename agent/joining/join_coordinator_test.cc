#include "agent/joining/join_coordinator.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "agent/joining/fake_registry.h"
#include "runtime/base/files/atomic_file.h"
#include "runtime/security/certificate.h"
#include "runtime/security/certificate_request.h"
#include "runtime/security/join_token.h"
#include "runtime/security/test_certificates.h"

namespace medley {
namespace {

using Catch::Contains;
namespace fs = std::filesystem;

// A node that has a token of a coordinator by `certificates`, and no certificate yet.
struct Node {
  explicit Node(const TestCertificates& certificates) {
    const v1::TlsConfig coordinator = certificates.Issue(v1::ROLE_COORDINATOR);
    const std::string& authority = certificates.authority().certificate;
    token = *NewJoinToken(*AuthorityFingerprint(*ReadPemFile("", coordinator.certificate()), authority));
    config.set_name("node1");
    config.set_join_token_file(directory.path() + "/token");
    REQUIRE(WriteFileAtomically(config.join_token_file(), FormatJoinToken(token) + "\n").ok());
    v1::TlsConfig& tls = *config.mutable_tls();
    tls.set_certificate(directory.path() + "/tls/certificate.pem");
    tls.set_key(directory.path() + "/tls/key.pem");
    tls.set_authority(directory.path() + "/tls/authority.pem");
  }
  absl::Status Join(const std::string& address) {
    config.set_coordinator_address(address);
    return JoinCoordinator(config, [](absl::Duration) { return true; });
  }

  TemporaryDirectory directory;
  JoinTokenText token;
  v1::AgentConfig config;
};

TEST_CASE("an agent gets a certificate for a key that stays with it") {
  const TestCertificates certificates;
  FakeRegistry registry(certificates.Issue(v1::ROLE_COORDINATOR), certificates.authority().certificate,
                        certificates.authority());
  Node node(certificates);
  REQUIRE(NeedsToJoin(node.config));
  REQUIRE(CheckJoining(node.config).ok());
  const absl::Status joined = node.Join(registry.address());
  INFO(joined);
  REQUIRE(joined.ok());
  CHECK_FALSE(NeedsToJoin(node.config));
  const absl::StatusOr<Certificate> shown = CheckTls(node.config.tls());
  INFO(shown.status());
  REQUIRE(shown.ok());
  CHECK(shown->identity.name == "node1");
  struct stat key = {};
  REQUIRE(stat(node.config.tls().key().c_str(), &key) == 0);
  CHECK((key.st_mode & 0777) == 0600);
  REQUIRE(registry.joins().size() == 1);
  CHECK(registry.joins()[0].token_secret() == node.token.secret);
  CHECK_THAT(registry.joins()[0].SerializeAsString(), !Contains("PRIVATE"));
  // Nothing but the three files is left.
  CHECK(std::distance(fs::directory_iterator(node.directory.path() + "/tls"), fs::directory_iterator()) == 3);
}

TEST_CASE("who did not hear the answer asks again with the same key, also after a restart") {
  const TestCertificates certificates;
  FakeRegistry registry(certificates.Issue(v1::ROLE_COORDINATOR), certificates.authority().certificate,
                        certificates.authority());
  Node node(certificates);
  registry.AnswerNextWith({grpc::StatusCode::UNAVAILABLE, "lost"});
  CHECK(absl::IsCancelled(node.Join(registry.address())));  // it was asked to stop meanwhile
  CHECK(NeedsToJoin(node.config));
  REQUIRE(node.Join(registry.address()).ok());
  REQUIRE(registry.joins().size() == 2);
  CHECK(*ReadCertificateRequest(registry.joins()[0].certificate_request()) ==
        *ReadCertificateRequest(registry.joins()[1].certificate_request()));
}

TEST_CASE("another coordinator at the address does not get the token") {
  const TestCertificates certificates, others("others");
  Node node(certificates);
  SECTION("one that shows its own authority") {
    FakeRegistry impostor(others.Issue(v1::ROLE_COORDINATOR), others.authority().certificate,
                          others.authority());
    const absl::Status refused = node.Join(impostor.address());
    CHECK(absl::IsFailedPrecondition(refused));
    CHECK_THAT(std::string(refused.message()), Contains("is not the coordinator that made the join token"));
    CHECK(impostor.joins().empty());
  }
  SECTION("one that shows the authority of the coordinator, and cannot show a certificate by it") {
    FakeRegistry impostor(others.Issue(v1::ROLE_COORDINATOR), certificates.authority().certificate,
                          others.authority());
    CHECK_FALSE(node.Join(impostor.address()).ok());
    CHECK(impostor.joins().empty());
  }
  SECTION("an agent of the coordinator's") {
    FakeRegistry impostor(certificates.Issue(v1::ROLE_AGENT), certificates.authority().certificate,
                          certificates.authority());
    CHECK_FALSE(node.Join(impostor.address()).ok());
    CHECK(impostor.joins().empty());
  }
  CHECK(NeedsToJoin(node.config));
}

TEST_CASE("a token that is refused is the configuration's fault") {
  const TestCertificates certificates;
  FakeRegistry registry(certificates.Issue(v1::ROLE_COORDINATOR), certificates.authority().certificate,
                        certificates.authority());
  Node node(certificates);
  registry.AnswerNextWith({grpc::StatusCode::PERMISSION_DENIED, "it was revoked"});
  const absl::Status refused = node.Join(registry.address());
  CHECK(absl::IsInvalidArgument(refused));
  CHECK_THAT(std::string(refused.message()), Contains("join_token_file: ") && Contains("it was revoked"));
}

TEST_CASE("a file that cannot be written is found out before the token is shown") {
  const TestCertificates certificates;
  FakeRegistry registry(certificates.Issue(v1::ROLE_COORDINATOR), certificates.authority().certificate,
                        certificates.authority());
  Node node(certificates);
  SECTION("its directory is a file") {
    node.config.mutable_tls()->set_authority(node.config.join_token_file() + "/authority.pem");
  }
  SECTION("it is a directory") { node.config.mutable_tls()->set_authority(node.directory.path()); }
  const absl::Status refused = node.Join(registry.address());
  CHECK(absl::IsFailedPrecondition(refused));
  CHECK_THAT(std::string(refused.message()), Contains("tls.authority"));
  CHECK(registry.joins().empty());
}

TEST_CASE("what cannot be tried is said before the start") {
  const TestCertificates certificates;
  Node node(certificates);
  const JoinTokenText& token = node.token;
  REQUIRE(WriteFileAtomically(node.config.join_token_file(), FormatJoinToken(token).substr(0, 60)).ok());
  const absl::Status cut = CheckJoining(node.config);
  CHECK(absl::IsInvalidArgument(cut));
  CHECK_THAT(std::string(cut.message()), Contains("join_token_file: ") &&
                                             Contains("is not all of a join token") &&
                                             !Contains(token.secret));
  node.config.set_join_token_file("/nowhere/token");
  CHECK_THAT(std::string(CheckJoining(node.config).message()), Contains("/nowhere/token cannot be read"));
  node.config.clear_tls();
  CHECK_THAT(std::string(CheckJoining(node.config).message()), Contains("join_token_file: needs tls"));
  node.config.clear_join_token_file();
  CHECK(CheckJoining(node.config).ok());
  CHECK_FALSE(NeedsToJoin(node.config));
}

TEST_CASE("who has a certificate needs no token, until it is over") {
  const TestCertificates certificates;
  v1::AgentConfig config;
  config.set_join_token_file("/nowhere/token");
  *config.mutable_tls() = certificates.Issue(v1::ROLE_AGENT);
  CHECK_FALSE(NeedsToJoin(config));
  CHECK(CheckJoining(config).ok());
  *config.mutable_tls() =
      certificates.Issue("late", {.name = "late", .role = v1::ROLE_AGENT}, absl::Minutes(-1));
  CHECK(NeedsToJoin(config));
}

}  // namespace
}  // namespace medley
