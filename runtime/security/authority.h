#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/security/certificate.h"

namespace medley {

// A small certificate authority, for sites that have none. Keys are of the curve P-256.

struct KeyAndCertificate {
  std::string key, certificate;  // PEM
};

// An authority of its own making. InvalidArgument: the name is empty, or has more than 64 bytes. Internal: OpenSSL's random numbers or
// keys fail.
absl::StatusOr<KeyAndCertificate> MakeAuthority(const std::string& name, absl::Duration lifetime);

// A certificate that says of its owner, by a new key, who it is: to be shown by clients and servers alike. `hosts`: names and addresses
// under which others reach it. Not in force for longer than the authority's.
// InvalidArgument: the authority's key is not its certificate's, or cannot be read; a host is neither a name nor an address; the name is
// empty, has more than 64 bytes without being a URI, or has commas or control characters.
absl::StatusOr<KeyAndCertificate> Issue(const KeyAndCertificate& authority, const Identity& identity,
                                        const std::vector<std::string>& hosts, absl::Duration lifetime);

// The same for the key of somebody else, of which only the public half (PEM) is known here: the certificate (PEM).
// InvalidArgument, too: it is no public key.
absl::StatusOr<std::string> IssueFor(const KeyAndCertificate& authority, absl::string_view public_key,
                                     const Identity& identity, const std::vector<std::string>& hosts,
                                     absl::Duration lifetime);

}  // namespace medley
