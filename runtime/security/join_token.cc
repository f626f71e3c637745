#include "runtime/security/join_token.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/base/status_macros.h"
#include "runtime/security/openssl_handles.h"

namespace medley {
namespace {

constexpr absl::string_view kVersion = "medley1";
constexpr size_t kIdDigits = 16, kSecretDigits = 64, kAuthorityDigits = 64;

absl::StatusOr<std::string> RandomDigits(size_t digits) {
  std::string bytes(digits / 2, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(bytes.size())) != 1)
    return OpensslFailure("random numbers");
  return absl::BytesToHexString(bytes);
}

bool AreDigits(absl::string_view text, size_t digits) {
  return text.size() == digits && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace

absl::StatusOr<JoinTokenText> NewJoinToken(const std::string& authority) {
  ASSIGN_OR_RETURN(std::string id, RandomDigits(kIdDigits));
  ASSIGN_OR_RETURN(std::string secret, RandomDigits(kSecretDigits));
  return JoinTokenText{.id = std::move(id), .secret = std::move(secret), .authority = authority};
}

std::string FormatJoinToken(const JoinTokenText& token) {
  return absl::StrCat(kVersion, ".", token.id, ".", token.secret, ".", token.authority);
}

absl::StatusOr<JoinTokenText> ParseJoinToken(absl::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(absl::StripAsciiWhitespace(text), '.');
  if (parts.front() != kVersion)
    return absl::InvalidArgumentError(
        "is no join token: one begins with \"medley1.\", as medley join-token create prints it");
  if (parts.size() != 4 || !AreDigits(parts[1], kIdDigits) || !AreDigits(parts[2], kSecretDigits) ||
      !AreDigits(parts[3], kAuthorityDigits))
    return absl::InvalidArgumentError(absl::StrCat(
        "is not all of a join token, or has been changed: one is \"medley1.\" and ", kIdDigits, ", ",
        kSecretDigits, " and ", kAuthorityDigits, " lowercase hexadecimal digits with dots between"));
  return JoinTokenText{.id = parts[1], .secret = parts[2], .authority = parts[3]};
}

std::string HashOfSecret(absl::string_view secret) {
  std::string hash(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(secret.data()), secret.size(),
         reinterpret_cast<unsigned char*>(hash.data()));
  return hash;
}

bool HasHash(absl::string_view secret, absl::string_view hash) {
  const std::string own = HashOfSecret(secret);
  return own.size() == hash.size() && CRYPTO_memcmp(own.data(), hash.data(), own.size()) == 0;
}

}  // namespace medley
