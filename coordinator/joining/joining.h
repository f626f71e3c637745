#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/store/store.h"
#include "proto/medley/v1/config.pb.h"
#include "runtime/base/unix_time.h"

namespace medley {

// Whether `join` of a configuration can certify agents that `tls` lets in afterwards; OK without `join`.
// InvalidArgument: it cannot; names the field and the file, and says why.
absl::Status CheckJoin(const v1::CoordinatorConfig& config);

// How agents get certificates: by a token, once, and then by the certificate that they have. What is handed out stands in the store
// before it is answered. Thread-safe; calls block for the disk.
//
// Errors of every call, beside the store's: FailedPrecondition, the configuration has no `join`, or its files do not fit each other any
// more.
class Joining {
 public:
  struct Options {
    std::optional<v1::JoinConfig> join;
    v1::TlsConfig tls;  // of the coordinator
    std::function<bool(const std::string& node)> is_alive;
    std::function<double()> now_seconds = UnixSecondsNow;
  };
  Joining(Store& store, Options options) : store_(store), options_(std::move(options)) {}

  // `creator`: by a certificate; empty: not known.
  absl::StatusOr<v1::CreateJoinTokenResponse> CreateToken(const v1::CreateJoinTokenRequest& request,
                                                          const std::string& creator);
  // Newest first.
  absl::StatusOr<std::vector<v1::JoinToken>> ListTokens();
  // NotFound: no such token.
  absl::Status RevokeToken(const std::string& id);

  absl::StatusOr<v1::GetAuthorityResponse> GetAuthority() const;

  // InvalidArgument: certificate_request is none. PermissionDenied: the token is refused; says why to who has its secret.
  absl::StatusOr<v1::JoinResponse> Join(const v1::JoinRequest& request);

  // Of the name and for the hosts that `shown` is, the certificate (PEM) of the caller, who may be the request's node.
  // InvalidArgument: as Join. PermissionDenied: `shown` is for any node, or there is none.
  absl::StatusOr<v1::JoinResponse> Renew(const v1::RenewCertificateRequest& request,
                                         absl::string_view shown) const;

 private:
  absl::Status CheckConfigured() const;

  Store& store_;
  const Options options_;
};

}  // namespace medley
