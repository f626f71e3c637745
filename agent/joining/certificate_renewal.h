#pragma once
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/medley/v1/config.pb.h"
#include "proto/medley/v1/coordinator.grpc.pb.h"
#include "runtime/base/stop_signal.h"
#include "runtime/security/certificate.h"

namespace medley {

// When a certificate is renewed: `part` of its life after it began, and up to a thirtieth of its life later, by `jitter` in [0, 1], so that
// nodes that joined together do not come back together.
absl::Time RenewalTime(const Certificate& certificate, double part, double jitter);

// Keeps the certificate of an agent in force: has the coordinator make another in time, for a new key that does not leave this node, and
// replaces both (pair_file.h); servers and channels read the files again by themselves. What fails is said in the log and tried again,
// with the old pair in force.
//
// Owns a thread. The destructor ends it, after a call that is under way.
class CertificateRenewal {
 public:
  struct Options {
    std::string coordinator_address;
    std::string node;
    v1::TlsConfig tls;
    double part = 2.0 / 3;  // of a certificate's life, after which it is renewed
  };
  explicit CertificateRenewal(Options options);
  ~CertificateRenewal();

 private:
  void Loop();
  absl::StatusOr<Certificate> Current() const;
  absl::Status Renew();

  const Options options_;
  const std::unique_ptr<v1::Registry::Stub> stub_;
  StopSignal stop_;
  std::thread thread_;
};

}  // namespace medley
