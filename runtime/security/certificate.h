#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/medley/v1/config.pb.h"

namespace medley {

// Who somebody is. A certificate says so by its URI name, where it has one that begins with "spiffe://", or else by its common
// name; and its role by its organisation, "medley:agent".
struct Identity {
  std::string name;
  v1::Role role = v1::ROLE_UNSPECIFIED;
};

// "viewer".
std::string RoleName(v1::Role role);

struct Certificate {
  Identity identity;
  std::vector<std::string> hosts;  // names and addresses that it is for
  absl::Time valid_from, valid_until;
};

// The first certificate of a PEM text. InvalidArgument: there is none.
absl::StatusOr<Certificate> ReadCertificate(absl::string_view pem);

// The same of what was read before, which a server asks for at every call. Thread-safe.
absl::StatusOr<Certificate> RecallCertificate(absl::string_view pem);

// Why the first certificate of a PEM text, whose others may stand between, is not signed by one of `authorities` (PEM); "": it is, also if
// it is not in force any more.
std::string WhyNotSignedBy(absl::string_view chain, absl::string_view authorities);

// The same, where all of them must be in force.
std::string WhyNotTrusted(absl::string_view chain, absl::string_view authorities);

// The fingerprint, SHA-256 in lowercase hexadecimal digits, of that one of `authorities` (PEM) by which the first certificate of `chain`
// is signed, itself or through others of `chain`. InvalidArgument: there is none.
absl::StatusOr<std::string> AuthorityFingerprint(absl::string_view chain, absl::string_view authorities);

// That one of a PEM text's certificates that has this fingerprint; "": none has.
std::string WithFingerprint(absl::string_view certificates, absl::string_view fingerprint);

// Those of a PEM text's certificates that others have signed, in its order.
std::string SignedByOthers(absl::string_view certificates);

// Whether the first certificate of a PEM text is for `host`, a name or an address.
bool IsForHost(absl::string_view pem, const std::string& host);

// The contents of a file that a configuration names in `field`. InvalidArgument: it cannot be read; names both.
absl::StatusOr<std::string> ReadPemFile(absl::string_view field, const std::string& file);

// Whether a daemon or a client can show this certificate: the files are there and readable, the key is the certificate's, the
// certificate is in force and signed by one of the authority's.
// InvalidArgument: it cannot; FailedPrecondition: it cannot now, as the certificate, or one that it is signed by, is in force at another
// time. Both name the file and say why. The certificate of `tls` otherwise.
absl::StatusOr<Certificate> CheckTls(const v1::TlsConfig& tls);

}  // namespace medley
