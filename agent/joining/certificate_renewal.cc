#include "agent/joining/certificate_renewal.h"

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "agent/joining/pair_file.h"
#include "runtime/base/clock.h"
#include "runtime/base/files/atomic_file.h"
#include "runtime/base/status_macros.h"
#include "runtime/log/log.h"
#include "runtime/security/certificate_request.h"
#include "runtime/security/credentials.h"
#include "runtime/wire/grpc_channel.h"
#include "runtime/wire/grpc_status.h"

namespace medley {
namespace {

constexpr absl::Duration kCallTime = absl::Seconds(20);
constexpr absl::Duration kFirstRetry = absl::Seconds(10), kLongestRetry = absl::Hours(1);
// The system's clock, which certificates go by, may be set; and the file may be another's.
constexpr absl::Duration kLookAgain = absl::Minutes(10);

// In [0, 1).
double Jitter() {
  std::random_device device;
  return std::uniform_real_distribution<double>()(device);
}

}  // namespace

absl::Time RenewalTime(const Certificate& certificate, double part, double jitter) {
  const absl::Duration life = certificate.valid_until - certificate.valid_from;
  return certificate.valid_from + life * part + life / 30 * jitter;
}

CertificateRenewal::CertificateRenewal(Options options)
    : options_(std::move(options)),
      stub_(v1::Registry::NewStub(OpenChannel(
          options_.coordinator_address, {.credentials = ChannelTls(options_.tls, v1::ROLE_COORDINATOR)}))),
      thread_([this] { Loop(); }) {}

CertificateRenewal::~CertificateRenewal() {
  stop_.Stop();
  thread_.join();
}

absl::StatusOr<Certificate> CertificateRenewal::Current() const {
  ASSIGN_OR_RETURN(const std::string pem, ReadPemFile("tls.certificate", options_.tls.certificate()));
  return ReadCertificate(pem);
}

void CertificateRenewal::Loop() {
  absl::Duration retry = kFirstRetry;
  double jitter = Jitter();
  absl::Duration pause = absl::ZeroDuration();
  while (stop_.SleepUnlessStopped(pause)) {
    const absl::StatusOr<Certificate> current = Current();
    const absl::Duration left =
        current.ok() ? RenewalTime(*current, options_.part, jitter) - absl::Now() : absl::ZeroDuration();
    if (left > absl::ZeroDuration()) {
      pause = std::min(left, kLookAgain);
      continue;
    }
    const absl::Status renewed = current.ok() ? Renew() : current.status();
    if (renewed.ok()) {
      retry = kFirstRetry;
      jitter = Jitter();
      pause = kFirstRetry;
      continue;
    }
    pause = retry * (0.5 + Jitter());
    LogWarning(absl::StrCat("the certificate is not renewed: ", renewed.message(), "; again in ",
                            absl::FormatDuration(absl::Floor(pause, absl::Seconds(1)))));
    retry = std::min(2 * retry, kLongestRetry);
  }
}

absl::Status CertificateRenewal::Renew() {
  ASSIGN_OR_RETURN(const std::string key, MakeKey());
  v1::RenewCertificateRequest request;
  request.set_node(options_.node);
  ASSIGN_OR_RETURN(*request.mutable_certificate_request(), MakeCertificateRequest(key));
  v1::JoinResponse response;
  grpc::ClientContext context;
  context.set_deadline(ToSystemClock(Now() + kCallTime));
  RETURN_IF_ERROR(FromGrpc(stub_->RenewCertificate(&context, request, &response)));
  ASSIGN_OR_RETURN(const Certificate made, ReadCertificate(response.certificate()));
  RETURN_IF_ERROR(WriteFileAtomically(options_.tls.authority(), response.authority()));
  RETURN_IF_ERROR(ReplacePair(options_.tls, key, response.certificate()));
  LogInfo(absl::StrCat("the certificate is renewed, and in force until ",
                       absl::FormatTime(made.valid_until, absl::UTCTimeZone())));
  return absl::OkStatus();
}

}  // namespace medley
