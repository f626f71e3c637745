#pragma once
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace medley {

// Requests for certificates (PKCS #10): whoever has a private key proves it, without showing the key.

// A new private key of the curve P-256 (PEM). Internal: OpenSSL's random numbers or keys fail.
absl::StatusOr<std::string> MakeKey();

// The public half of a private key, as ReadCertificateRequest has it. InvalidArgument: `key` is no private key (PEM).
absl::StatusOr<std::string> PublicKeyOf(absl::string_view key);

// A request for a certificate for `key` (PEM). It asks for no name: who somebody is, is the authority's to say.
// InvalidArgument: as PublicKeyOf.
absl::StatusOr<std::string> MakeCertificateRequest(absl::string_view key);

// The public key (PEM) that a request is for. InvalidArgument: it is no request (PEM), is not signed by its own key, or its key is weaker
// than RSA's of 2048 bits and the curve P-224.
absl::StatusOr<std::string> ReadCertificateRequest(absl::string_view request);

}  // namespace medley
