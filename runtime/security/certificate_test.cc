#include "runtime/security/certificate.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/time/clock.h"
#include "runtime/security/openssl_handles.h"
#include "runtime/security/test_certificates.h"

namespace medley {
namespace {

std::string Read(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

std::string WhyNot(const v1::TlsConfig& tls) { return std::string(CheckTls(tls).status().message()); }

TEST_CASE("a certificate says who it is of, which role that is, and how long it is in force") {
  const TestCertificates certificates;
  for (const auto& [name, role] :
       std::initializer_list<std::pair<std::string, v1::Role>>{{"node1", v1::ROLE_AGENT},
                                                               {"spiffe://site/ops/alice", v1::ROLE_OPERATOR},
                                                               {"Zoë", v1::ROLE_UNSPECIFIED}}) {
    const v1::TlsConfig tls = certificates.Issue("one", {.name = name, .role = role});
    const absl::StatusOr<Certificate> found = CheckTls(tls);
    INFO(found.status());
    REQUIRE(found.ok());
    CHECK(found->identity.name == name);
    CHECK(found->identity.role == role);
    CHECK(found->valid_from < absl::Now());
    CHECK(found->valid_until > absl::Now() + absl::Minutes(59));
    CHECK(found->valid_until < absl::Now() + absl::Minutes(61));
  }
}

TEST_CASE("no certificate is in force for longer than its authority") {
  const KeyAndCertificate authority = MakeAuthority("short", absl::Hours(1)).value();
  const KeyAndCertificate made = Issue(authority, {.name = "a"}, {}, absl::Hours(1000)).value();
  CHECK(ReadCertificate(made.certificate)->valid_until ==
        ReadCertificate(authority.certificate)->valid_until);
}

TEST_CASE("who signed a certificate can be told, also when it has run out") {
  const KeyAndCertificate ours = *MakeAuthority("ours", absl::Hours(1)),
                          theirs = *MakeAuthority("theirs", absl::Hours(1));
  for (const absl::Duration lifetime : {absl::Hours(1), -absl::Hours(1)}) {
    const auto made = Issue(ours, {.name = "node1", .role = v1::ROLE_AGENT}, {}, lifetime);
    REQUIRE(made.ok());
    CHECK(WhyNotSignedBy(made->certificate, ours.certificate).empty());
    CHECK(!WhyNotSignedBy(made->certificate, theirs.certificate).empty());
  }
  // An authority that signs for itself is nobody's but its own.
  CHECK(!WhyNotSignedBy(theirs.certificate, ours.certificate).empty());
}

TEST_CASE("a name cannot bring in further names") {
  const KeyAndCertificate authority = *MakeAuthority("ours", absl::Hours(1));
  for (const char* name : {"spiffe://site/a,DNS:coordinator", "a\nb"})
    CHECK(absl::IsInvalidArgument(
        Issue(authority, {.name = name, .role = v1::ROLE_VIEWER}, {}, absl::Hours(1)).status()));
}

TEST_CASE("a name that nobody could be told by is refused, not cut") {
  const KeyAndCertificate authority = *MakeAuthority("ours", absl::Hours(1));
  const auto made = [&](const std::string& name) {
    return Issue(authority, {.name = name}, {}, absl::Hours(1));
  };
  CHECK(made("").status() == absl::InvalidArgumentError("name: is empty; nobody could be told by it"));
  CHECK(MakeAuthority("", absl::Hours(1)).status() == made("").status());
  CHECK(made(std::string(65, 'a')).status() ==
        absl::InvalidArgumentError("name: has 65 bytes; may have 64, unless it begins with spiffe://"));
  for (const std::string& name : {std::string(64, 'a'), "spiffe://site/" + std::string(100, 'a')})
    CHECK(ReadCertificate(made(name).value().certificate)->identity.name == name);
}

TEST_CASE("a certificate is for its hosts alone") {
  const KeyAndCertificate authority = MakeAuthority("hosts", absl::Hours(1)).value();
  const std::string made =
      Issue(authority, {.name = "a"}, {"node1.site", "10.1.2.3", "fd00::7"}, absl::Hours(1))
          .value()
          .certificate;
  const std::vector<std::string> hosts = {"node1.site", "10.1.2.3", "fd00::7"};
  CHECK(ReadCertificate(made)->hosts == hosts);
  for (const std::string& host : hosts) CHECK(IsForHost(made, host));
  for (const char* host : {"node2.site", "10.1.2.4", "fd00::8", "site", ""})
    CHECK_FALSE(IsForHost(made, host));
  CHECK(Issue(authority, {.name = "a"}, {"no host"}, absl::Hours(1)).status().message() ==
        "host: \"no host\" is neither a name nor an address");
}

TEST_CASE("what cannot be shown is refused, and the file is named") {
  const TestCertificates certificates, others("others");
  const v1::TlsConfig good = certificates.Issue(v1::ROLE_AGENT), stranger = others.Issue(v1::ROLE_AGENT);
  v1::TlsConfig tls = good;
  tls.set_key("nowhere.pem");
  CHECK(WhyNot(tls) == "tls.key: nowhere.pem cannot be read");
  tls.set_key(stranger.key());
  CHECK(WhyNot(tls) == "tls.key: " + stranger.key() + " is not the key of " + good.certificate());
  tls.set_key(good.certificate());
  CHECK(WhyNot(tls) == "tls.key: " + good.certificate() + " is no private key (PEM, without a pass phrase)");
  tls = good;
  tls.set_certificate(good.key());
  CHECK(WhyNot(tls) == "tls.certificate: " + good.key() + ": is no certificate (PEM)");
  tls = stranger;
  tls.set_authority(good.authority());
  CHECK_THAT(WhyNot(tls), Catch::StartsWith("tls.certificate: " + stranger.certificate() +
                                            " is not signed by " + good.authority()));
  const v1::TlsConfig late = certificates.Issue("late", {.name = "late"}, absl::Minutes(-1));
  CHECK_THAT(WhyNot(late),
             Catch::StartsWith("tls.certificate: " + late.certificate() + " was in force until 20"));
  // A service that ends with this is started again: its clock may not be set yet, or another certificate come.
  CHECK(absl::IsFailedPrecondition(CheckTls(late).status()));
  CHECK(absl::IsInvalidArgument(CheckTls(tls).status()));
}

// The same authority, whose time has passed.
std::string Ended(const KeyAndCertificate& authority) {
  const CertificateHandle certificate = NextCertificate(*ReadBio(authority.certificate));
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), -1);
  REQUIRE(X509_sign(certificate.get(), FirstKey(authority.key).get(), EVP_sha256()) != 0);
  return PemOf([&](BIO* to) { return PEM_write_bio_X509(to, certificate.get()); });
}

TEST_CASE("an authority whose time has passed is another's to replace, and no wrong configuration") {
  const TestCertificates certificates;
  const v1::TlsConfig tls = certificates.Issue(v1::ROLE_AGENT);
  REQUIRE(CheckTls(tls).ok());
  std::ofstream(tls.authority()) << Ended(certificates.authority());
  const absl::Status status = CheckTls(tls).status();
  CHECK(absl::IsFailedPrecondition(status));
  CHECK_THAT(std::string(status.message()), Catch::StartsWith("tls.certificate: " + tls.certificate()) &&
                                                Catch::Contains(tls.authority()) &&
                                                Catch::Contains("expired"));
}

TEST_CASE("an authority's key must be its own") {
  const KeyAndCertificate one = MakeAuthority("one", absl::Hours(1)).value(),
                          two = MakeAuthority("two", absl::Hours(1)).value();
  CHECK(Issue({.key = one.key, .certificate = two.certificate}, {.name = "a"}, {}, absl::Hours(1))
            .status()
            .message() == "the authority's key is not the one of its certificate");
}

TEST_CASE("no two certificates have one serial number or one key") {
  const TestCertificates certificates;
  const std::string first = Read(certificates.Issue("one", {.name = "a"}).key());
  CHECK(first != Read(certificates.Issue("two", {.name = "a"}).key()));
}

}  // namespace
}  // namespace medley
