#include "runtime/security/test_certificates.h"

namespace medley {

TestCertificates::TestCertificates(const std::string& name)
    : authority_(MakeAuthority(name, absl::Hours(24)).value()) {
  directory_.Write("authority.pem", authority_.certificate);
}

v1::TlsConfig TestCertificates::Issue(const std::string& file, const Identity& identity,
                                      absl::Duration lifetime) const {
  const KeyAndCertificate made = medley::Issue(authority_, identity, {"127.0.0.1"}, lifetime).value();
  v1::TlsConfig tls;
  tls.set_certificate(directory_.Write(file + ".pem", made.certificate));
  tls.set_key(directory_.Write(file + "-key.pem", made.key));
  tls.set_authority(directory_.File("authority.pem"));
  return tls;
}

}  // namespace medley
