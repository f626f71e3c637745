#include "runtime/daemon/certificate_figure.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/security/certificate.h"
#include "runtime/security/test_certificates.h"

namespace medley {
namespace {

std::string TextOf(const v1::TlsConfig* tls, absl::Time now) {
  OpenMetrics metrics;
  AddCertificateFigure(tls, now, metrics);
  return metrics.Text();
}

TEST_CASE("a certificate has its remaining seconds, and less than none once it is over") {
  const TestCertificates certificates;
  const v1::TlsConfig tls = certificates.Issue(v1::ROLE_AGENT);
  const absl::StatusOr<Certificate> certificate = CheckTls(tls);
  REQUIRE(certificate.ok());
  for (const int seconds : {100, -50})
    CHECK_THAT(TextOf(&tls, certificate->valid_until - absl::Seconds(seconds)),
               Catch::Contains(absl::StrCat("\nmedley_certificate_remaining_seconds ", seconds, "\n")));
}

TEST_CASE("where there is none there is no figure") {
  CHECK(TextOf(nullptr, absl::Now()) == "# EOF\n");
  v1::TlsConfig gone;
  gone.set_certificate("/nowhere/certificate.pem");
  CHECK(TextOf(&gone, absl::Now()) == "# EOF\n");
}

}  // namespace
}  // namespace medley
