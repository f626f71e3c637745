#include "runtime/security/certificate_request.h"

#include "runtime/base/status_macros.h"
#include "runtime/security/openssl_handles.h"

namespace medley {
namespace {

using RequestHandle = std::unique_ptr<X509_REQ, OpensslFree<X509_REQ_free>>;

constexpr int kLeastSecurityBits = 112;

std::string PublicPem(EVP_PKEY& key) {
  return PemOf([&](BIO* to) { return PEM_write_bio_PUBKEY(to, &key); });
}

absl::StatusOr<KeyHandle> ReadKey(absl::string_view pem) {
  KeyHandle key = FirstKey(pem);
  if (key == nullptr) return absl::InvalidArgumentError("is no private key (PEM, without a pass phrase)");
  return key;
}

}  // namespace

absl::StatusOr<std::string> MakeKey() {
  const KeyHandle key(EVP_EC_gen("P-256"));
  if (key == nullptr) return OpensslFailure("a new key");
  return PemOf([&](BIO* to) {
    return PEM_write_bio_PrivateKey(to, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
}

absl::StatusOr<std::string> PublicKeyOf(absl::string_view key) {
  ASSIGN_OR_RETURN(const KeyHandle read, ReadKey(key));
  return PublicPem(*read);
}

absl::StatusOr<std::string> MakeCertificateRequest(absl::string_view key) {
  ASSIGN_OR_RETURN(const KeyHandle read, ReadKey(key));
  const RequestHandle made(X509_REQ_new());
  X509_REQ_set_version(made.get(), X509_REQ_VERSION_1);
  X509_REQ_set_pubkey(made.get(), read.get());
  if (X509_REQ_sign(made.get(), read.get(), EVP_sha256()) == 0) return OpensslFailure("signing a request");
  return PemOf([&](BIO* to) { return PEM_write_bio_X509_REQ(to, made.get()); });
}

absl::StatusOr<std::string> ReadCertificateRequest(absl::string_view request) {
  const RequestHandle read(PEM_read_bio_X509_REQ(ReadBio(request).get(), nullptr, nullptr, nullptr));
  EVP_PKEY* key = read == nullptr ? nullptr : X509_REQ_get0_pubkey(read.get());
  if (key == nullptr) return absl::InvalidArgumentError("is no request for a certificate (PKCS #10, PEM)");
  if (EVP_PKEY_get_security_bits(key) < kLeastSecurityBits)
    return absl::InvalidArgumentError("is for a weak key; RSA's have 2048 bits at least");
  if (X509_REQ_verify(read.get(), key) != 1)
    return absl::InvalidArgumentError("is not signed by the key that it is for");
  return PublicPem(*key);
}

}  // namespace medley
