#include "agent/joining/certificate_renewal.h"

#include <catch2/catch.hpp>

#include "agent/joining/fake_registry.h"
#include "runtime/security/certificate_request.h"
#include "runtime/security/test_certificates.h"

namespace medley {
namespace {

TEST_CASE("a certificate is renewed at two thirds of its life or a little later") {
  const absl::Time from = absl::UnixEpoch();
  const Certificate certificate{.valid_from = from, .valid_until = from + absl::Hours(90)};
  CHECK(RenewalTime(certificate, 2.0 / 3, 0) == from + absl::Hours(60));
  CHECK(RenewalTime(certificate, 2.0 / 3, 1) == from + absl::Hours(63));
}

// Of which a first part has passed that is asked for, so that nobody waits.
TEST_CASE("a new key and its certificate take the place of those whose time has come") {
  const TestCertificates certificates;
  FakeRegistry registry(certificates.Issue(v1::ROLE_COORDINATOR), certificates.authority().certificate,
                        certificates.authority());
  const v1::TlsConfig tls = certificates.Issue("node1", {.name = "node1", .role = v1::ROLE_AGENT});
  const std::string before = *ReadPemFile("", tls.certificate()), key = *ReadPemFile("", tls.key());
  {
    const CertificateRenewal renewal(
        {.coordinator_address = registry.address(), .node = "node1", .tls = tls, .part = 0.01});
    registry.AwaitRenewals(1);
  }
  CHECK(registry.renewals()[0].node() == "node1");
  CHECK(*PublicKeyOf(*ReadPemFile("", tls.key())) != *PublicKeyOf(key));
  CHECK(*ReadCertificateRequest(registry.renewals()[0].certificate_request()) ==
        *PublicKeyOf(*ReadPemFile("", tls.key())));
  CHECK(*ReadPemFile("", tls.certificate()) != before);
  const absl::StatusOr<Certificate> fits = CheckTls(tls);
  INFO(fits.status());
  CHECK(fits.ok());
  // gRPC reads the pair, too: the next renewal is asked for with it.
  const CertificateRenewal next(
      {.coordinator_address = registry.address(), .node = "node1", .tls = tls, .part = 0.01});
  registry.AwaitRenewals(2);
}

TEST_CASE("a certificate whose time has not come, or that is not renewed, stays") {
  const TestCertificates certificates;
  FakeRegistry registry(certificates.Issue(v1::ROLE_COORDINATOR), certificates.authority().certificate,
                        certificates.authority());
  const v1::TlsConfig tls = certificates.Issue("node1", {.name = "node1", .role = v1::ROLE_AGENT});
  const std::string before = *ReadPemFile("", tls.certificate());
  {
    const CertificateRenewal early({.coordinator_address = registry.address(), .node = "node1", .tls = tls});
  }
  CHECK(registry.renewals().empty());
  registry.AnswerNextWith({grpc::StatusCode::FAILED_PRECONDITION, "join: is not set"});
  {
    const CertificateRenewal refused(
        {.coordinator_address = registry.address(), .node = "node1", .tls = tls, .part = 0.01});
    registry.AwaitRenewals(1);
  }
  CHECK(*ReadPemFile("", tls.certificate()) == before);
}

}  // namespace
}  // namespace medley
