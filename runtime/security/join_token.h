#pragma once
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace medley {

// What an administrator hands to a new node: "medley1.ID.SECRET.AUTHORITY", each part in lowercase hexadecimal digits. By it the node
// knows its coordinator, and the coordinator the node.
struct JoinTokenText {
  std::string id;      // 16 digits; no secret
  std::string secret;  // 64 digits, 256 bits
  std::string
      authority;  // 64 digits: the fingerprint (certificate.h) of the authority by which the coordinator's certificate is signed
};

// A new one, with random id and secret. Internal: OpenSSL's random numbers fail.
absl::StatusOr<JoinTokenText> NewJoinToken(const std::string& authority);

std::string FormatJoinToken(const JoinTokenText& token);

// White space around it is no part of it.
// InvalidArgument: it is none, or not all of one; the message does not repeat it.
absl::StatusOr<JoinTokenText> ParseJoinToken(absl::string_view text);

// What is kept of a secret: its SHA-256, 32 bytes.
std::string HashOfSecret(absl::string_view secret);

// Whether `secret` has this hash. Takes as long whatever they are.
bool HasHash(absl::string_view secret, absl::string_view hash);

}  // namespace medley
