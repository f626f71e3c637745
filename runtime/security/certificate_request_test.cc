#include "runtime/security/certificate_request.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "runtime/security/authority.h"
#include "runtime/security/certificate.h"
#include "runtime/security/test_certificates.h"

namespace medley {
namespace {

TEST_CASE("a request has the public half of its key, which is certified") {
  const std::string key = *MakeKey(), request = *MakeCertificateRequest(key);
  CHECK_THAT(request, !Catch::Contains("PRIVATE"));
  const absl::StatusOr<std::string> public_key = ReadCertificateRequest(request);
  REQUIRE(public_key.ok());
  CHECK(*public_key == *PublicKeyOf(key));
  CHECK(*PublicKeyOf(*MakeKey()) != *public_key);

  const KeyAndCertificate authority = *MakeAuthority("site", absl::Hours(10));
  const absl::StatusOr<std::string> made =
      IssueFor(authority, *public_key, {.name = "node1", .role = v1::ROLE_AGENT}, {"node1"}, absl::Hours(1));
  INFO(made.status());
  REQUIRE(made.ok());
  const Certificate certificate = *ReadCertificate(*made);
  CHECK(certificate.identity.name == "node1");
  CHECK(certificate.identity.role == v1::ROLE_AGENT);
  CHECK(certificate.hosts == std::vector<std::string>{"node1"});
  CHECK(WhyNotTrusted(*made, authority.certificate).empty());
  CHECK_FALSE(WhyNotTrusted(*made, MakeAuthority("other", absl::Hours(10))->certificate).empty());
}

TEST_CASE("what is no request, or is not signed by its own key, is refused") {
  const std::string request = *MakeCertificateRequest(*MakeKey());
  for (const std::string& wrong :
       {std::string(), std::string("nonsense"), *MakeKey(), request.substr(0, 100)})
    CHECK(absl::IsInvalidArgument(ReadCertificateRequest(wrong).status()));
  // A letter of the signature, which ends the text.
  std::string forged = request;
  const size_t at = forged.find("-----END") - 20;
  forged[at] = forged[at] == 'A' ? 'B' : 'A';
  CHECK(absl::IsInvalidArgument(ReadCertificateRequest(forged).status()));
  CHECK(absl::IsInvalidArgument(MakeCertificateRequest("no key").status()));
  CHECK(absl::IsInvalidArgument(PublicKeyOf(request).status()));
}

TEST_CASE("an RSA key of 1024 bits is too weak") {
  const absl::Status refused = ReadCertificateRequest(
                                   "-----BEGIN CERTIFICATE REQUEST-----\n"
                                   "MIIBSzCBtQIBADAMMQowCAYDVQQDDAF4MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCB\n"
                                   "iQKBgQDXW8ZnyWgYvlmk/PV51dpQ0ewBjoPbS2aymLUEC7cjY4k6RXG914BJMas0\n"
                                   "hA78BzFAEj/EdUvdvq9/YxekHAShazck5+IEAT0AzmAFOrKNELIaJo7lX3TXmS0F\n"
                                   "T40ulydy40RK491oYpSpqZ08gGdc+BgmAvshWnLIGwBkAMUPgwIDAQABoAAwDQYJ\n"
                                   "KoZIhvcNAQELBQADgYEArTqiwFmJOa1WZch6CFIVRh1YKDfBEZxVismNRGklLTUF\n"
                                   "Mz2/E/EgqAcCu2P/VLXH/2q9mjio9z87OoWh45Yd5LwlSwXSzblLDl47+9XMP2BS\n"
                                   "S1VgUVF+oVQz3gcBBC41qBIfaUp47qFbK4HxeHS7UoPoMSOQ7Bjl4DLRdMZrTTw=\n"
                                   "-----END CERTIFICATE REQUEST-----\n")
                                   .status();
  CHECK_THAT(std::string(refused.message()), Catch::Contains("weak key"));
}

TEST_CASE("the authority that has signed is found among several by its fingerprint") {
  const KeyAndCertificate one = *MakeAuthority("one", absl::Hours(10)),
                          two = *MakeAuthority("two", absl::Hours(10));
  const std::string both = absl::StrCat(two.certificate, one.certificate);
  const std::string made = Issue(one, {.name = "a"}, {}, absl::Hours(1))->certificate;
  const absl::StatusOr<std::string> fingerprint = AuthorityFingerprint(made, both);
  REQUIRE(fingerprint.ok());
  CHECK(fingerprint->size() == 64);
  CHECK(WithFingerprint(both, *fingerprint) == one.certificate);
  CHECK(WithFingerprint(two.certificate, *fingerprint).empty());
  CHECK(WithFingerprint("", *fingerprint).empty());
  CHECK(absl::IsInvalidArgument(AuthorityFingerprint(made, two.certificate).status()));
  CHECK(SignedByOthers(absl::StrCat(one.certificate, made)) == made);
}

}  // namespace
}  // namespace medley
