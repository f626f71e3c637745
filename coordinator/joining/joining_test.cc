#include "coordinator/joining/joining.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <optional>

#include "absl/strings/str_cat.h"
#include "coordinator/store/store.h"
#include "runtime/base/files/atomic_file.h"
#include "runtime/base/files/temporary_directory.h"
#include "runtime/security/authority.h"
#include "runtime/security/certificate_request.h"
#include "runtime/security/join_token.h"
#include "runtime/security/test_certificates.h"

namespace medley {
namespace {

using Catch::Contains;

// A coordinator's tokens, at a moment that tests move.
struct Site {
  TemporaryDirectory directory;
  std::unique_ptr<Store> store = *Store::Open(directory.path() + "/state");
  TestCertificates certificates;
  v1::CoordinatorConfig config;
  double now_seconds = UnixSecondsNow();
  std::string alive;  // the node that is
  std::optional<Joining> joining;

  Site() {
    *config.mutable_tls() = certificates.Issue("coordinator", {.name = "head", .role = v1::ROLE_COORDINATOR});
    config.mutable_join()->set_certificate(config.tls().authority());
    config.mutable_join()->set_key(directory.path() + "/authority-key.pem");
    REQUIRE(WriteFileAtomically(config.join().key(), certificates.authority().key).ok());
    joining.emplace(*store,
                    Joining::Options{.join = config.join(),
                                     .tls = config.tls(),
                                     .is_alive = [this](const std::string& node) { return node == alive; },
                                     .now_seconds = [this] { return now_seconds; }});
  }

  JoinTokenText Create(const std::string& node = "", double valid_seconds = 0) {
    v1::CreateJoinTokenRequest request;
    request.set_node(node);
    request.set_valid_seconds(valid_seconds);
    const absl::StatusOr<v1::CreateJoinTokenResponse> made = joining->CreateToken(request, "alice");
    INFO(made.status());
    REQUIRE(made.ok());
    CHECK_THAT(made->token(), Contains(made->token_id()));
    return *ParseJoinToken(made->token());
  }
  absl::StatusOr<v1::JoinResponse> Join(const JoinTokenText& token, const std::string& node,
                                        const std::string& key = *MakeKey()) {
    v1::JoinRequest request;
    request.set_token_id(token.id);
    request.set_token_secret(token.secret);
    request.set_node(node);
    request.set_certificate_request(*MakeCertificateRequest(key));
    return joining->Join(request);
  }
};

void CheckRefused(const absl::StatusOr<v1::JoinResponse>& answer, const std::string& why) {
  INFO(answer.status());
  REQUIRE(absl::IsPermissionDenied(answer.status()));
  CHECK_THAT(std::string(answer.status().message()), Contains(why));
}

TEST_CASE("a token gets a node its certificate, which the coordinator's authority stands for") {
  Site site;
  REQUIRE(CheckJoin(site.config).ok());
  const JoinTokenText token = site.Create();
  const std::string& authority = site.certificates.authority().certificate;
  CHECK(WithFingerprint(authority, token.authority) == authority);
  CHECK(site.joining->GetAuthority()->authority() == authority);
  const std::string key = *MakeKey();
  const absl::StatusOr<v1::JoinResponse> answer = site.Join(token, "node1", key);
  INFO(answer.status());
  REQUIRE(answer.ok());
  CHECK(answer->authority() == authority);
  const Certificate made = *ReadCertificate(answer->certificate());
  CHECK(made.identity.name == "node1");
  CHECK(made.identity.role == v1::ROLE_AGENT);
  CHECK(made.hosts == std::vector<std::string>{"node1"});
  CHECK(WhyNotTrusted(answer->certificate(), authority).empty());
  const std::vector<v1::JoinToken> tokens = *site.joining->ListTokens();
  REQUIRE(tokens.size() == 1);
  CHECK(tokens[0].created_by() == "alice");
  CHECK(tokens[0].used_by() == "node1");
  // Neither in what is listed nor in what is kept.
  const v1::JoinTokenRecord record = (*site.store->ListJoinTokens())[0];
  CHECK_THAT(record.SerializeAsString(), !Contains(token.secret) && !Contains(key.substr(40, 40)));
}

TEST_CASE("a spent token is good for the same node with the same key, which may not have heard the answer") {
  Site site;
  const JoinTokenText token = site.Create();
  const std::string key = *MakeKey();
  const absl::StatusOr<v1::JoinResponse> first = site.Join(token, "node1", key);
  REQUIRE(first.ok());
  site.now_seconds += 7200;  // the token has expired, the certificate has not
  const absl::StatusOr<v1::JoinResponse> again = site.Join(token, "node1", key);
  REQUIRE(again.ok());
  CHECK(again->certificate() == first->certificate());
  CheckRefused(site.Join(token, "node1"), "it was used by node node1");
  CheckRefused(site.Join(token, "node2", key), "it was used by node node1");
  REQUIRE(site.joining->RevokeToken(token.id).ok());
  CheckRefused(site.Join(token, "node1", key), "it was revoked");
}

TEST_CASE("a spent token is spent after a restart, too") {
  Site site;
  const JoinTokenText token = site.Create();
  REQUIRE(site.Join(token, "node1").ok());
  site.joining.reset();
  site.store.reset();
  site.store = *Store::Open(site.directory.path() + "/state");
  Joining restarted(*site.store, {.join = site.config.join(),
                                  .tls = site.config.tls(),
                                  .is_alive = [](const std::string&) { return false; }});
  v1::JoinRequest request;
  request.set_token_id(token.id);
  request.set_token_secret(token.secret);
  request.set_node("node1");
  request.set_certificate_request(*MakeCertificateRequest(*MakeKey()));
  CheckRefused(restarted.Join(request), "it was used by node node1");
}

TEST_CASE(
    "tokens that are unknown, changed, revoked, expired or another node's are refused, and stay as they "
    "are") {
  Site site;
  const JoinTokenText token = site.Create("node1", 60);
  JoinTokenText wrong = token;
  wrong.secret[0] = wrong.secret[0] == '0' ? '1' : '0';
  CheckRefused(site.Join(wrong, "node1"), "there is none of this id and secret");
  wrong.secret = token.secret.substr(0, 63);
  CheckRefused(site.Join(wrong, "node1"), "there is none of this id and secret");
  CheckRefused(site.Join({.id = "0000000000000000", .secret = token.secret}, "node1"),
               "there is none of this id");
  CheckRefused(site.Join(token, "node2"), "it is for node node1");
  site.now_seconds += 61;
  CheckRefused(site.Join(token, "node1"), "it expired at");
  site.now_seconds -= 61;
  CHECK(site.Join(token, "node1").ok());

  const JoinTokenText revoked = site.Create();
  CHECK(absl::IsNotFound(site.joining->RevokeToken("nothing")));
  REQUIRE(site.joining->RevokeToken(revoked.id).ok());
  REQUIRE(site.joining->RevokeToken(revoked.id).ok());
  CheckRefused(site.Join(revoked, "node3"), "it was revoked");
}

TEST_CASE("the name of an agent that is alive goes only to a token that is made for it") {
  Site site;
  site.alive = "node1";
  const JoinTokenText any = site.Create();
  CheckRefused(site.Join(any, "node1"), "an agent of this name is alive");
  CHECK(site.Join(any, "node2").ok());
  CHECK(site.Join(site.Create("node1"), "node1").ok());
}

TEST_CASE("no node gets a certificate for the coordinator's host") {
  Site site;
  const KeyAndCertificate head =
      *Issue(site.certificates.authority(), {.name = "head", .role = v1::ROLE_COORDINATOR}, {"head.site"},
             absl::Hours(1));
  REQUIRE(WriteFileAtomically(site.config.tls().certificate(), head.certificate).ok());
  const absl::StatusOr<v1::JoinResponse> answer = site.Join(site.Create(), "head.site");
  REQUIRE(answer.ok());
  CHECK(ReadCertificate(answer->certificate())->hosts.empty());
}

TEST_CASE("what asks for a certificate must be a request, and spends nothing otherwise") {
  Site site;
  const JoinTokenText token = site.Create();
  v1::JoinRequest request;
  request.set_token_id(token.id);
  request.set_token_secret(token.secret);
  request.set_node("node1");
  request.set_certificate_request("nonsense");
  CHECK_THAT(std::string(site.joining->Join(request).status().message()),
             Contains("certificate_request: is no request"));
  CHECK(site.Join(token, "node1").ok());
}

TEST_CASE("a certificate is renewed for who it is, whatever the request says") {
  Site site;
  const std::string key = *MakeKey();
  const std::string shown = site.Join(site.Create(), "node1", key)->certificate();
  v1::RenewCertificateRequest request;
  request.set_node("node1");
  request.set_certificate_request(*MakeCertificateRequest(key));
  const absl::StatusOr<v1::JoinResponse> renewed = site.joining->Renew(request, shown);
  INFO(renewed.status());
  REQUIRE(renewed.ok());
  CHECK(renewed->certificate() != shown);
  const Certificate made = *ReadCertificate(renewed->certificate());
  CHECK(made.identity.name == "node1");
  CHECK(made.hosts == std::vector<std::string>{"node1"});
  CHECK(absl::IsPermissionDenied(site.joining->Renew(request, "").status()));
  const KeyAndCertificate any =
      *Issue(site.certificates.authority(), {.name = "*", .role = v1::ROLE_AGENT}, {}, absl::Hours(1));
  CHECK(absl::IsPermissionDenied(site.joining->Renew(request, any.certificate).status()));
}

TEST_CASE("tokens of long ago are forgotten") {
  Site site;
  const JoinTokenText old = site.Create();
  site.now_seconds += 32.0 * 24 * 3600;
  const JoinTokenText fresh = site.Create();
  const std::vector<v1::JoinToken> tokens = *site.joining->ListTokens();
  REQUIRE(tokens.size() == 1);
  CHECK(tokens[0].id() == fresh.id);
  CheckRefused(site.Join(old, "node1"), "there is none of this id");
}

TEST_CASE("without join nothing is done, and it is said what to set") {
  Site site;
  Joining without(*site.store, {.tls = site.config.tls()});
  for (const absl::Status& status :
       {without.CreateToken({}, "").status(), without.ListTokens().status(), without.RevokeToken("a"),
        without.GetAuthority().status(), without.Join({}).status(), without.Renew({}, "").status()}) {
    CHECK(absl::IsFailedPrecondition(status));
    CHECK_THAT(std::string(status.message()),
               Contains("join: is not set in the coordinator's configuration"));
  }
}

TEST_CASE(
    "files that do not fit each other are found before the start, and after a change when they are used") {
  Site site;
  const TestCertificates others("others");
  v1::CoordinatorConfig wrong = site.config;
  wrong.clear_tls();
  CHECK_THAT(std::string(CheckJoin(wrong).message()), Contains("join: needs tls"));
  wrong = site.config;
  wrong.mutable_join()->set_key("/nowhere/key.pem");
  CHECK_THAT(std::string(CheckJoin(wrong).message()), Contains("join.key: /nowhere/key.pem cannot be read"));
  wrong = site.config;
  wrong.mutable_join()->set_key(site.config.tls().key());
  CHECK_THAT(std::string(CheckJoin(wrong).message()),
             Contains("the authority's key is not the one of its certificate"));
  // A certificate that may sign nothing.
  wrong.mutable_join()->set_certificate(site.config.tls().certificate());
  CHECK_THAT(std::string(CheckJoin(wrong).message()),
             Contains("join.certificate") && Contains("signs nothing that"));
  // Another authority's.
  wrong = site.config;
  const std::string file = site.directory.path() + "/other";
  REQUIRE(WriteFileAtomically(file + ".pem", others.authority().certificate).ok());
  REQUIRE(WriteFileAtomically(file + "-key.pem", others.authority().key).ok());
  wrong.mutable_join()->set_certificate(file + ".pem");
  wrong.mutable_join()->set_key(file + "-key.pem");
  CHECK_THAT(std::string(CheckJoin(wrong).message()),
             Contains("join.certificate") && Contains("signs nothing that"));

  const JoinTokenText token = site.Create();
  REQUIRE(WriteFileAtomically(site.config.join().key(), others.authority().key).ok());
  CHECK(absl::IsFailedPrecondition(site.Join(token, "node1").status()));
  REQUIRE(WriteFileAtomically(site.config.join().key(), site.certificates.authority().key).ok());
  CHECK(site.Join(token, "node1").ok());  // it was not spent
}

TEST_CASE("an authority between is sent along") {
  Site site;
  // By openssl, since MakeAuthority's may have none below them.
  const TemporaryDirectory folder;
  const auto path = [&](const char* name) { return folder.path() + "/" + name; };
  const std::string script = absl::StrCat(
      "cd ", folder.path(),
      " && exec >/dev/null 2>&1 &&"
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout root-key.pem -subj "
      "/CN=root -days 30 -out root.pem &&"
      "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout between-key.pem -subj "
      "/CN=between -out between.csr &&"
      "printf 'basicConstraints=critical,CA:TRUE,pathlen:0\\nsubjectKeyIdentifier=hash\\n' > between.ext &&"
      "openssl x509 -req -in between.csr -CA root.pem -CAkey root-key.pem -CAcreateserial -days 20 -extfile "
      "between.ext -out between.pem");
  REQUIRE(std::system(script.c_str()) == 0);
  site.config.mutable_tls()->set_authority(path("root.pem"));
  site.config.mutable_join()->set_certificate(path("between.pem"));
  site.config.mutable_join()->set_key(path("between-key.pem"));
  const absl::Status fits = CheckJoin(site.config);
  INFO(fits);
  REQUIRE(fits.ok());
  Joining joining(*site.store, {.join = site.config.join(), .tls = site.config.tls()});
  const std::string shown =
      Issue(site.certificates.authority(), {.name = "node1", .role = v1::ROLE_AGENT}, {}, absl::Hours(1))
          ->certificate;
  v1::RenewCertificateRequest request;
  request.set_certificate_request(*MakeCertificateRequest(*MakeKey()));
  const absl::StatusOr<v1::JoinResponse> made = joining.Renew(request, shown);
  INFO(made.status());
  REQUIRE(made.ok());
  CHECK(WhyNotTrusted(made->certificate(), made->authority()).empty());
  const std::string leaf = made->certificate().substr(0, made->certificate().find("-----END"));
  CHECK_FALSE(WhyNotTrusted(leaf + "-----END CERTIFICATE-----\n", made->authority()).empty());
}

}  // namespace
}  // namespace medley
