// Certificates, which whoever connects may show: as text, and, so that mutations get past the text's encoding, as the bytes within it.
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/security/certificate.h"
#include "tests/fuzz/fuzz_target.h"

namespace medley {
namespace {

constexpr char kBegin[] = "-----BEGIN CERTIFICATE-----\n", kEnd[] = "-----END CERTIFICATE-----\n";

// By itself, for node1, 10.0.0.1 and spiffe://site/node1, until 2126.
constexpr char kSeed[] =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIB1DCCAXmgAwIBAgIUSZgC4fSGmh0WSA4lHQRe+jKSx5AwCgYIKoZIzj0EAwIw\n"
    "JzEVMBMGA1UECgwMbWVkbGV5OmFnZW50MQ4wDAYDVQQDDAVub2RlMTAgFw0yNjEx\n"
    "MjUwMDIzNDVaGA8yMTI2MTEwMTAwMjM0NVowJzEVMBMGA1UECgwMbWVkbGV5OmFn\n"
    "ZW50MQ4wDAYDVQQDDAVub2RlMTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABIyD\n"
    "tT7e5bKAoH1diDE2bfuaEvyF0VVnJft/unT9U2D9sBJbf/Dx7/Xfe3Yo38Jv7N2T\n"
    "R++pkJU445a7l5dAv8WjgYAwfjAdBgNVHQ4EFgQUs4rDE9WGzxrDggmwFHBI4kyd\n"
    "UEAwHwYDVR0jBBgwFoAUs4rDE9WGzxrDggmwFHBI4kydUEAwDwYDVR0TAQH/BAUw\n"
    "AwEB/zArBgNVHREEJDAiggVub2RlMYcECgAAAYYTc3BpZmZlOi8vc2l0ZS9ub2Rl\n"
    "MTAKBggqhkjOPQQDAgNJADBGAiEAr+cmTozSfb4LrHOYCEIlFJFAyk+ZvkJU6Eq8\n"
    "h+QJBMYCIQCl/3KncSucgFH76dLXbvJecuhnATVxqwikVXaBwr8fVQ==\n"
    "-----END CERTIFICATE-----\n";

// In lines of 64 characters, as the format has it.
std::string AsText(std::string_view bytes) {
  const std::string encoded = absl::Base64Escape(absl::string_view(bytes.data(), bytes.size()));
  std::string text = kBegin;
  for (size_t i = 0; i < encoded.size(); i += 64) absl::StrAppend(&text, encoded.substr(i, 64), "\n");
  return text + kEnd;
}

void Try(const std::string& text) {
  const absl::StatusOr<Certificate> certificate = ReadCertificate(text);
  if (!certificate.ok()) return DemandRefusal(certificate.status());
  Accepted();
  Demand(v1::Role_IsValid(certificate->identity.role), "its role is one that there is");
  for (const std::string& host : certificate->hosts) (void)IsForHost(text, host);
}

}  // namespace

std::vector<std::string> FuzzSeeds() {
  std::string bytes, encoded;
  for (const absl::string_view line : absl::StrSplit(kSeed, '\n')) {
    if (line.rfind("-----", 0) != 0) absl::StrAppend(&encoded, line);
  }
  absl::Base64Unescape(encoded, &bytes);
  return {kSeed, bytes};
}

}  // namespace medley

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = medley::TextOf(data, size);
  medley::Try(std::string(text));
  medley::Try(medley::AsText(text));
  return 0;
}
