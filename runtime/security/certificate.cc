#include "runtime/security/certificate.h"

#include <arpa/inet.h>

#include <fstream>
#include <map>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status_macros.h"
#include "runtime/security/openssl_handles.h"

namespace medley {
namespace {

constexpr absl::string_view kRolePrefix = "medley:";
constexpr size_t kRecalled = 16384;  // certificates of a kilobyte

std::string TextOf(const ASN1_STRING* value) {
  unsigned char* bytes = nullptr;
  const int size = ASN1_STRING_to_UTF8(&bytes, value);
  if (size < 0) return "";
  std::string text(reinterpret_cast<char*>(bytes), static_cast<size_t>(size));
  OPENSSL_free(bytes);
  return text;
}

// The subject's first value of a kind.
std::string SubjectEntry(const X509& certificate, int kind) {
  const X509_NAME* subject = X509_get_subject_name(&certificate);
  const int at = X509_NAME_get_index_by_NID(subject, kind, -1);
  return at < 0 ? "" : TextOf(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
}

std::string AddressText(const ASN1_STRING& address) {
  char text[INET6_ADDRSTRLEN] = {};
  const int family = ASN1_STRING_length(&address) == 4 ? AF_INET : AF_INET6;
  inet_ntop(family, ASN1_STRING_get0_data(&address), text, sizeof(text));
  return text;
}

// What stands beside the subject: who it is, as a URI, and its hosts.
void ReadAlternativeNames(const X509& certificate, Certificate& found) {
  auto* names =
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(names); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names, i);
    if (name->type == GEN_DNS) found.hosts.push_back(TextOf(name->d.dNSName));
    if (name->type == GEN_IPADD) found.hosts.push_back(AddressText(*name->d.iPAddress));
    if (name->type != GEN_URI || !found.identity.name.empty()) continue;
    const std::string uri = TextOf(name->d.uniformResourceIdentifier);
    if (absl::StartsWith(uri, "spiffe://")) found.identity.name = uri;
  }
  GENERAL_NAMES_free(names);
}

absl::Time TimeOf(const ASN1_TIME* time) {
  tm broken = {};
  return ASN1_TIME_to_tm(time, &broken) == 1 ? absl::FromTM(broken, absl::UTCTimeZone())
                                             : absl::InfinitePast();
}

Certificate Describe(const X509& certificate) {
  Certificate found;
  ReadAlternativeNames(certificate, found);
  if (found.identity.name.empty()) found.identity.name = SubjectEntry(certificate, NID_commonName);
  const std::string organisation = SubjectEntry(certificate, NID_organizationName);
  if (absl::StartsWith(organisation, kRolePrefix)) {
    const std::string name = absl::AsciiStrToUpper(organisation.substr(kRolePrefix.size()));
    v1::Role_Parse(absl::StrCat("ROLE_", name), &found.identity.role);
  }
  found.valid_from = TimeOf(X509_get0_notBefore(&certificate));
  found.valid_until = TimeOf(X509_get0_notAfter(&certificate));
  return found;
}

// How the first of `chain` is signed by one of the certificates of `authorities`, itself or through others of `chain`.
struct Signature {
  std::string why_not;  // "": it is
  CertificateHandle authority;
};

Signature FindSignature(absl::string_view chain, absl::string_view authorities, unsigned long flags) {
  X509_STORE* trusted = X509_STORE_new();
  const BioHandle authority_text = ReadBio(authorities);
  while (const CertificateHandle one = NextCertificate(*authority_text))
    X509_STORE_add_cert(trusted, one.get());
  STACK_OF(X509)* between = sk_X509_new_null();
  const BioHandle chain_text = ReadBio(chain);
  const CertificateHandle first = NextCertificate(*chain_text);
  while (CertificateHandle one = NextCertificate(*chain_text)) sk_X509_push(between, one.release());
  X509_STORE_CTX* check = X509_STORE_CTX_new();
  X509_STORE_CTX_init(check, trusted, first.get(), between);
  X509_STORE_CTX_set_flags(check, flags);
  Signature found;
  if (X509_verify_cert(check) == 1) {
    const STACK_OF(X509)* path = X509_STORE_CTX_get0_chain(check);
    X509* last = sk_X509_value(path, sk_X509_num(path) - 1);
    X509_up_ref(last);
    found.authority.reset(last);
  } else {
    found.why_not = X509_verify_cert_error_string(X509_STORE_CTX_get_error(check));
  }
  X509_STORE_CTX_free(check);
  sk_X509_pop_free(between, X509_free);
  X509_STORE_free(trusted);
  return found;
}

std::string FingerprintOf(const X509& certificate) {
  std::string digest(EVP_MAX_MD_SIZE, '\0');
  unsigned size = 0;
  X509_digest(&certificate, EVP_sha256(), reinterpret_cast<unsigned char*>(digest.data()), &size);
  return absl::BytesToHexString(digest.substr(0, size));
}

// Those of a PEM text that `choose` says true of.
template <typename Choose>
std::string Chosen(absl::string_view certificates, Choose choose) {
  std::string chosen;
  const BioHandle text = ReadBio(certificates);
  while (const CertificateHandle one = NextCertificate(*text)) {
    if (choose(*one)) chosen += PemOf([&](BIO* to) { return PEM_write_bio_X509(to, one.get()); });
  }
  return chosen;
}

}  // namespace

std::string WhyNotSignedBy(absl::string_view chain, absl::string_view authorities) {
  return FindSignature(chain, authorities, X509_V_FLAG_NO_CHECK_TIME).why_not;
}

std::string WhyNotTrusted(absl::string_view chain, absl::string_view authorities) {
  return FindSignature(chain, authorities, 0).why_not;
}

absl::StatusOr<std::string> AuthorityFingerprint(absl::string_view chain, absl::string_view authorities) {
  const Signature found = FindSignature(chain, authorities, X509_V_FLAG_NO_CHECK_TIME);
  if (found.authority == nullptr) return absl::InvalidArgumentError(found.why_not);
  return FingerprintOf(*found.authority);
}

std::string WithFingerprint(absl::string_view certificates, absl::string_view fingerprint) {
  return Chosen(certificates, [&](const X509& one) { return FingerprintOf(one) == fingerprint; });
}

std::string SignedByOthers(absl::string_view certificates) {
  return Chosen(certificates, [](const X509& one) {
    return X509_NAME_cmp(X509_get_subject_name(&one), X509_get_issuer_name(&one)) != 0;
  });
}

absl::StatusOr<std::string> ReadPemFile(absl::string_view field, const std::string& file) {
  std::ifstream stream(file);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream) return absl::InvalidArgumentError(absl::StrCat(field, ": ", file, " cannot be read"));
  return text.str();
}

std::string RoleName(v1::Role role) {
  return absl::AsciiStrToLower(absl::string_view(v1::Role_Name(role)).substr(sizeof("ROLE_") - 1));
}

absl::StatusOr<Certificate> ReadCertificate(absl::string_view pem) {
  const BioHandle text = ReadBio(pem);
  const CertificateHandle certificate = NextCertificate(*text);
  if (certificate == nullptr) return absl::InvalidArgumentError("is no certificate (PEM)");
  return Describe(*certificate);
}

absl::StatusOr<Certificate> RecallCertificate(absl::string_view pem) {
  static Mutex mutex;
  static auto* known = new std::map<std::string, Certificate, std::less<>>;
  {
    MutexLock lock(mutex);
    const auto found = known->find(pem);
    if (found != known->end()) return found->second;
  }
  absl::StatusOr<Certificate> read = ReadCertificate(pem);
  MutexLock lock(mutex);
  if (known->size() >= kRecalled) known->clear();
  if (read.ok()) known->emplace(pem, *read);
  return read;
}

bool IsForHost(absl::string_view pem, const std::string& host) {
  const BioHandle text = ReadBio(pem);
  const CertificateHandle certificate = NextCertificate(*text);
  return certificate != nullptr &&
         (X509_check_ip_asc(certificate.get(), host.c_str(), 0) == 1 ||
          X509_check_host(certificate.get(), host.data(), host.size(), 0, nullptr) == 1);
}

absl::StatusOr<Certificate> CheckTls(const v1::TlsConfig& tls) {
  ASSIGN_OR_RETURN(const std::string chain, ReadPemFile("tls.certificate", tls.certificate()));
  ASSIGN_OR_RETURN(const std::string key_text, ReadPemFile("tls.key", tls.key()));
  ASSIGN_OR_RETURN(const std::string authorities, ReadPemFile("tls.authority", tls.authority()));
  const auto refuse = [](const char* field, const std::string& file, const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat("tls.", field, ": ", file, " ", why));
  };
  const absl::StatusOr<Certificate> found = ReadCertificate(chain);
  RETURN_IF_ERROR(Annotate(found.status(), absl::StrCat("tls.certificate: ", tls.certificate())));
  RETURN_IF_ERROR(
      Annotate(ReadCertificate(authorities).status(), absl::StrCat("tls.authority: ", tls.authority())));
  const KeyHandle key = FirstKey(key_text);
  if (key == nullptr) return refuse("key", tls.key(), "is no private key (PEM, without a pass phrase)");
  const BioHandle text = ReadBio(chain);
  if (X509_check_private_key(NextCertificate(*text).get(), key.get()) != 1)
    return refuse("key", tls.key(), absl::StrCat("is not the key of ", tls.certificate()));
  // Another time, by the clock or by a new file, another answer.
  const auto not_now = [&](const char* words, absl::Time time) {
    return absl::FailedPreconditionError(absl::StrCat("tls.certificate: ", tls.certificate(), words,
                                                      absl::FormatTime(time, absl::UTCTimeZone())));
  };
  if (absl::Now() > found->valid_until) return not_now(" was in force until ", found->valid_until);
  if (absl::Now() < found->valid_from) return not_now(" is not in force before ", found->valid_from);
  if (const std::string why = WhyNotSignedBy(chain, authorities); !why.empty())
    return refuse("certificate", tls.certificate(),
                  absl::StrCat("is not signed by ", tls.authority(), ": ", why));
  // Its own time is looked at above.
  if (const std::string why = WhyNotTrusted(chain, authorities); !why.empty())
    return absl::FailedPreconditionError(
        absl::StrCat("tls.certificate: ", tls.certificate(), " is signed by ", tls.authority(),
                     ", but that or one between them is not in force: ", why));
  return found;
}

}  // namespace medley
