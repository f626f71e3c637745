#include "runtime/security/authority.h"

#include <openssl/rand.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "runtime/base/status_macros.h"
#include "runtime/security/certificate_request.h"
#include "runtime/security/openssl_handles.h"

namespace medley {
namespace {

// Clocks of a cluster differ.
constexpr absl::Duration kBackdated = absl::Minutes(5);
constexpr int kSerialBytes = 16;
// OpenSSL takes no longer one.
constexpr size_t kMostCommonNameBytes = 64;

bool IsUri(const std::string& name) { return absl::StartsWith(name, "spiffe://"); }

absl::Status CheckName(const std::string& name) {
  if (name.empty()) return absl::InvalidArgumentError("name: is empty; nobody could be told by it");
  if (name.size() <= kMostCommonNameBytes || IsUri(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("name: has ", name.size(), " bytes; may have ",
                                                 kMostCommonNameBytes, ", unless it begins with spiffe://"));
}

void AddSubject(X509_NAME& subject, const char* kind, const std::string& value) {
  X509_NAME_add_entry_by_txt(&subject, kind, MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(value.data()),
                             static_cast<int>(value.size()), -1, 0);
}

absl::Status AddExtension(X509& certificate, X509& issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, &issuer, &certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
  if (extension == nullptr) return OpensslFailure(value);
  X509_add_ext(&certificate, extension, -1);
  X509_EXTENSION_free(extension);
  return absl::OkStatus();
}

bool IsAddress(const std::string& host) {
  ASN1_OCTET_STRING* address = a2i_IPADDRESS(host.c_str());
  ASN1_OCTET_STRING_free(address);
  return address != nullptr;
}

bool IsHostName(const std::string& host) {
  return !host.empty() && host.size() <= 253 && std::all_of(host.begin(), host.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '.' || c == '_' || c == '*';
  });
}

absl::StatusOr<std::string> SubjectNames(const Identity& identity, const std::vector<std::string>& hosts) {
  std::vector<std::string> names;
  RETURN_IF_ERROR(CheckName(identity.name));
  if (std::any_of(identity.name.begin(), identity.name.end(),
                  [](unsigned char c) { return c < ' ' || c == ',' || c == 127; }))
    return absl::InvalidArgumentError("name: may have neither commas nor control characters");
  if (IsUri(identity.name)) names.push_back(absl::StrCat("URI:", identity.name));
  for (const std::string& host : hosts) {
    if (!IsAddress(host) && !IsHostName(host))
      return absl::InvalidArgumentError(
          absl::StrCat("host: \"", host, "\" is neither a name nor an address"));
    names.push_back(absl::StrCat(IsAddress(host) ? "IP:" : "DNS:", host));
  }
  return absl::StrJoin(names, ",");
}

// A certificate of a key that has everything but its extensions and its signature.
absl::StatusOr<CertificateHandle> Begin(EVP_PKEY& key, absl::Time valid_until) {
  CertificateHandle made(X509_new());
  unsigned char serial[kSerialBytes];
  if (RAND_bytes(serial, sizeof(serial)) != 1) return OpensslFailure("random numbers");
  serial[0] &= 0x7f;
  BIGNUM* number = BN_bin2bn(serial, sizeof(serial), nullptr);
  BN_to_ASN1_INTEGER(number, X509_get_serialNumber(made.get()));
  BN_free(number);
  X509_set_version(made.get(), X509_VERSION_3);
  ASN1_TIME_set(X509_getm_notBefore(made.get()), absl::ToTimeT(absl::Now() - kBackdated));
  ASN1_TIME_set(X509_getm_notAfter(made.get()), absl::ToTimeT(valid_until));
  X509_set_pubkey(made.get(), &key);
  return made;
}

absl::StatusOr<std::string> Sign(X509& certificate, EVP_PKEY& by) {
  if (X509_sign(&certificate, &by, EVP_sha256()) == 0) return OpensslFailure("signing");
  return PemOf([&](BIO* to) { return PEM_write_bio_X509(to, &certificate); });
}

}  // namespace

absl::StatusOr<KeyAndCertificate> MakeAuthority(const std::string& name, absl::Duration lifetime) {
  RETURN_IF_ERROR(CheckName(name));
  KeyAndCertificate both;
  ASSIGN_OR_RETURN(both.key, MakeKey());
  const KeyHandle key = FirstKey(both.key);
  ASSIGN_OR_RETURN(const CertificateHandle made, Begin(*key, absl::Now() + lifetime));
  AddSubject(*X509_get_subject_name(made.get()), "CN", name.substr(0, kMostCommonNameBytes));
  X509_set_issuer_name(made.get(), X509_get_subject_name(made.get()));
  RETURN_IF_ERROR(AddExtension(*made, *made, NID_basic_constraints, "critical,CA:TRUE,pathlen:0"));
  RETURN_IF_ERROR(AddExtension(*made, *made, NID_key_usage, "critical,keyCertSign,cRLSign"));
  RETURN_IF_ERROR(AddExtension(*made, *made, NID_subject_key_identifier, "hash"));
  ASSIGN_OR_RETURN(both.certificate, Sign(*made, *key));
  return both;
}

absl::StatusOr<std::string> IssueFor(const KeyAndCertificate& authority, absl::string_view public_key,
                                     const Identity& identity, const std::vector<std::string>& hosts,
                                     absl::Duration lifetime) {
  const KeyHandle authority_key = FirstKey(authority.key);
  const BioHandle text = ReadBio(authority.certificate);
  const CertificateHandle issuer = NextCertificate(*text);
  if (authority_key == nullptr || issuer == nullptr ||
      X509_check_private_key(issuer.get(), authority_key.get()) != 1)
    return absl::InvalidArgumentError("the authority's key is not the one of its certificate");
  ASSIGN_OR_RETURN(const Certificate by, ReadCertificate(authority.certificate));
  const KeyHandle key(PEM_read_bio_PUBKEY(ReadBio(public_key).get(), nullptr, nullptr, nullptr));
  if (key == nullptr) return absl::InvalidArgumentError("is no public key (PEM)");
  ASSIGN_OR_RETURN(const CertificateHandle made,
                   Begin(*key, std::min(absl::Now() + lifetime, by.valid_until)));
  X509_NAME& subject = *X509_get_subject_name(made.get());
  if (identity.role != v1::ROLE_UNSPECIFIED)
    AddSubject(subject, "O", absl::StrCat("medley:", RoleName(identity.role)));
  // Of a URI there may be more, which the alternative name says.
  AddSubject(subject, "CN", identity.name.substr(0, kMostCommonNameBytes));
  X509_set_issuer_name(made.get(), X509_get_subject_name(issuer.get()));
  RETURN_IF_ERROR(AddExtension(*made, *issuer, NID_basic_constraints, "critical,CA:FALSE"));
  RETURN_IF_ERROR(AddExtension(*made, *issuer, NID_key_usage, "critical,digitalSignature"));
  RETURN_IF_ERROR(AddExtension(*made, *issuer, NID_ext_key_usage, "clientAuth,serverAuth"));
  RETURN_IF_ERROR(AddExtension(*made, *issuer, NID_subject_key_identifier, "hash"));
  RETURN_IF_ERROR(AddExtension(*made, *issuer, NID_authority_key_identifier, "keyid"));
  ASSIGN_OR_RETURN(const std::string names, SubjectNames(identity, hosts));
  if (!names.empty()) RETURN_IF_ERROR(AddExtension(*made, *issuer, NID_subject_alt_name, names));
  return Sign(*made, *authority_key);
}

absl::StatusOr<KeyAndCertificate> Issue(const KeyAndCertificate& authority, const Identity& identity,
                                        const std::vector<std::string>& hosts, absl::Duration lifetime) {
  KeyAndCertificate made;
  ASSIGN_OR_RETURN(made.key, MakeKey());
  ASSIGN_OR_RETURN(const std::string public_key, PublicKeyOf(made.key));
  ASSIGN_OR_RETURN(made.certificate, IssueFor(authority, public_key, identity, hosts, lifetime));
  return made;
}

}  // namespace medley
