#pragma once
#include <grpcpp/server.h>

#include <memory>
#include <string>
#include <vector>

#include "proto/medley/v1/coordinator.grpc.pb.h"
#include "runtime/base/mutex.h"
#include "runtime/security/authority.h"
#include "runtime/security/credentials.h"

namespace medley {

// A coordinator as far as agents that join or renew see it, at a free port of the loopback: it certifies every key, and keeps what it was
// asked.
class FakeRegistry final : public v1::Registry::Service {
 public:
  // Shows `tls`, says that `shown_authority` (PEM) is its authority, and signs by `signer`.
  FakeRegistry(const v1::TlsConfig& tls, std::string shown_authority, const KeyAndCertificate& signer);
  ~FakeRegistry() override;

  std::string address() const;
  // The next Join or RenewCertificate is carried out and answered so.
  void AnswerNextWith(grpc::Status status);
  std::vector<v1::JoinRequest> joins() const;
  std::vector<v1::RenewCertificateRequest> renewals() const;
  // Returns once so many renewals were answered.
  void AwaitRenewals(size_t count);

 private:
  grpc::Status GetAuthority(grpc::ServerContext*, const v1::GetAuthorityRequest*,
                            v1::GetAuthorityResponse*) override;
  grpc::Status Join(grpc::ServerContext*, const v1::JoinRequest*, v1::JoinResponse*) override;
  grpc::Status RenewCertificate(grpc::ServerContext*, const v1::RenewCertificateRequest*,
                                v1::JoinResponse*) override;
  grpc::Status Certify(const std::string& node, const std::string& request, v1::JoinResponse* response)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string shown_authority_;
  const KeyAndCertificate signer_;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  grpc::Status next_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::JoinRequest> joins_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::RenewCertificateRequest> renewals_ ABSL_GUARDED_BY(mutex_);
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace medley
