#include "agent/joining/fake_registry.h"

#include <grpcpp/server_builder.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "runtime/security/certificate_request.h"

namespace medley {

FakeRegistry::FakeRegistry(const v1::TlsConfig& tls, std::string shown_authority,
                           const KeyAndCertificate& signer)
    : shown_authority_(std::move(shown_authority)), signer_(signer) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", ServerTls(tls, nullptr), &port_);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
}

FakeRegistry::~FakeRegistry() { server_->Shutdown(); }

std::string FakeRegistry::address() const { return absl::StrCat("127.0.0.1:", port_); }

void FakeRegistry::AnswerNextWith(grpc::Status status) {
  MutexLock lock(mutex_);
  next_ = std::move(status);
}

std::vector<v1::JoinRequest> FakeRegistry::joins() const {
  MutexLock lock(mutex_);
  return joins_;
}

std::vector<v1::RenewCertificateRequest> FakeRegistry::renewals() const {
  MutexLock lock(mutex_);
  return renewals_;
}

void FakeRegistry::AwaitRenewals(size_t count) {
  MutexLock lock(mutex_);
  changed_.WaitUntil(mutex_, absl::InfiniteFuture(), [&] { return renewals_.size() >= count; });
}

grpc::Status FakeRegistry::Certify(const std::string& node, const std::string& request,
                                   v1::JoinResponse* response) {
  const absl::StatusOr<std::string> public_key = ReadCertificateRequest(request);
  if (!public_key.ok())
    return {grpc::StatusCode::INVALID_ARGUMENT, std::string(public_key.status().message())};
  const absl::StatusOr<std::string> made =
      IssueFor(signer_, *public_key, {.name = node, .role = v1::ROLE_AGENT}, {}, absl::Hours(1));
  if (!made.ok()) return {grpc::StatusCode::INTERNAL, std::string(made.status().message())};
  response->set_certificate(*made);
  response->set_authority(signer_.certificate);
  return std::exchange(next_, grpc::Status::OK);
}

grpc::Status FakeRegistry::GetAuthority(grpc::ServerContext*, const v1::GetAuthorityRequest*,
                                        v1::GetAuthorityResponse* response) {
  response->set_authority(shown_authority_);
  return grpc::Status::OK;
}

grpc::Status FakeRegistry::Join(grpc::ServerContext*, const v1::JoinRequest* request,
                                v1::JoinResponse* response) {
  MutexLock lock(mutex_);
  joins_.push_back(*request);
  return Certify(request->node(), request->certificate_request(), response);
}

grpc::Status FakeRegistry::RenewCertificate(grpc::ServerContext*, const v1::RenewCertificateRequest* request,
                                            v1::JoinResponse* response) {
  MutexLock lock(mutex_);
  renewals_.push_back(*request);
  changed_.NotifyAll();
  return Certify(request->node(), request->certificate_request(), response);
}

}  // namespace medley
