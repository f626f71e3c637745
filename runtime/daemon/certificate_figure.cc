#include "runtime/daemon/certificate_figure.h"

#include "runtime/base/files/file_reader.h"
#include "runtime/security/certificate.h"

namespace medley {

void AddCertificateFigure(const v1::TlsConfig* tls, absl::Time now, OpenMetrics& metrics) {
  if (tls == nullptr) return;
  const absl::StatusOr<std::string> pem = ReadTextFile(tls->certificate());
  if (!pem.ok()) return;
  const absl::StatusOr<Certificate> certificate = ReadCertificate(*pem);
  if (!certificate.ok()) return;
  metrics.Single("medley_certificate_remaining_seconds", OpenMetrics::Type::kGauge,
                 "Until the daemon's certificate is in force no more.",
                 absl::ToDoubleSeconds(certificate->valid_until - now));
}

}  // namespace medley
