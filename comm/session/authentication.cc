#include "comm/session/authentication.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <cstdio>
#include <cstdlib>

#include "absl/status/status.h"

namespace medley {
namespace {

const unsigned char* Raw(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

// Out of memory, or a broken library. Better no process than one whose proofs are all zeros.
[[noreturn]] void GiveUp() {
  std::fputs("libcrypto computes no SHA-256\n", stderr);
  std::abort();
}

template <typename T>
void Append(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value),
               sizeof(value));  // little-endian, like every machine that it runs on
}

void Append(std::string& bytes, const Introduction& said) {
  Append(bytes, said.attempt);
  Append(bytes, said.from);
  Append(bytes, said.to);
  Append(bytes, said.nonce);
  Append(bytes, said.payload);
  Append(bytes, said.address);
}

}  // namespace

Digest Sha256(std::string_view bytes) {
  Digest digest = {};
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, EVP_sha256(), nullptr) != 1) GiveUp();
  return digest;
}

Digest HmacSha256(std::string_view key, std::string_view bytes) {
  Digest digest = {};
  const auto* made = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), Raw(bytes), bytes.size(),
                          digest.data(), nullptr);
  if (made == nullptr) GiveUp();
  return digest;
}

absl::StatusOr<Nonce> FreshNonce() {
  Nonce nonce;
  if (RAND_bytes(nonce.data(), static_cast<int>(nonce.size())) != 1) {
    return absl::InternalError("the system gives no random numbers");
  }
  return nonce;
}

bool EqualInConstantTime(const Digest& a, const Digest& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Digest Proof(std::string_view secret, Role role, const Introduction& connector,
             const Introduction& acceptor) {
  // All that follows has a fixed size, so nothing is ambiguous.
  std::string transcript = "medley session proof 1";
  Append(transcript, role);
  Append(transcript, connector);
  Append(transcript, acceptor);
  return HmacSha256(secret, transcript);
}

}  // namespace medley
