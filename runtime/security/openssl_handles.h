#pragma once
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace medley {

template <auto kFree>
struct OpensslFree {
  template <typename Value>
  void operator()(Value* value) const {
    kFree(value);
  }
};

using BioHandle = std::unique_ptr<BIO, OpensslFree<BIO_free>>;
using CertificateHandle = std::unique_ptr<X509, OpensslFree<X509_free>>;
using KeyHandle = std::unique_ptr<EVP_PKEY, OpensslFree<EVP_PKEY_free>>;

// A text to read PEM from; it must outlive what is returned.
inline BioHandle ReadBio(absl::string_view text) {
  return BioHandle(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// The next certificate; null: there is none.
inline CertificateHandle NextCertificate(BIO& text) {
  return CertificateHandle(PEM_read_bio_X509(&text, nullptr, nullptr, nullptr));
}

inline KeyHandle FirstKey(absl::string_view pem) {
  // Nobody is asked for a pass phrase.
  return KeyHandle(PEM_read_bio_PrivateKey(
      ReadBio(pem).get(), nullptr, [](char*, int, int, void*) { return -1; }, nullptr));
}

// What `write` writes to the BIO that it is given, as with PEM_write_bio_...
template <typename Write>
std::string PemOf(Write write) {
  const BioHandle to(BIO_new(BIO_s_mem()));
  write(to.get());
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(to.get(), &bytes);
  return std::string(bytes, static_cast<size_t>(size));
}

// Internal, with OpenSSL's own words.
inline absl::Status OpensslFailure(absl::string_view what) {
  char text[256] = {};
  ERR_error_string_n(ERR_get_error(), text, sizeof(text));
  return absl::InternalError(absl::StrCat(what, ": ", text));
}

}  // namespace medley
