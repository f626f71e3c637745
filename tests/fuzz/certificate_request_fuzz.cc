// Requests for certificates, which whoever has a token sends: as text, and, so that mutations get past the text's encoding, as the bytes
// within it.
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/security/certificate_request.h"
#include "tests/fuzz/fuzz_target.h"

namespace medley {
namespace {

constexpr char kSeed[] =
    "-----BEGIN CERTIFICATE REQUEST-----\n"
    "MIG7MGICAQAwADBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABKcKjAC5wT6N9Qwk\n"
    "WiyZ9UldKLG9XcCK6bTmMA6RLHwLZLyv5zc/VcCsEMka/WMuDzLK/hqaMTwmfP+F\n"
    "wd0HxtagADAKBggqhkjOPQQDAgNJADBGAiEAqjkKPLQQ2xQIHJ4amnmFTFt5wxzn\n"
    "4fgXFYZzj9TvYBYCIQCcDik0xMRsz8hZs89/PKJAYvicXqJ4VTV492ioMQAYew==\n"
    "-----END CERTIFICATE REQUEST-----\n";

// In lines of 64 characters, as the format has it.
std::string AsText(std::string_view bytes) {
  const std::string encoded = absl::Base64Escape(absl::string_view(bytes.data(), bytes.size()));
  std::string text = "-----BEGIN CERTIFICATE REQUEST-----\n";
  for (size_t i = 0; i < encoded.size(); i += 64) absl::StrAppend(&text, encoded.substr(i, 64), "\n");
  return text + "-----END CERTIFICATE REQUEST-----\n";
}

void Try(const std::string& text) {
  const absl::StatusOr<std::string> key = ReadCertificateRequest(text);
  if (!key.ok()) return DemandRefusal(key.status());
  Accepted();
  Demand(absl::StartsWith(*key, "-----BEGIN PUBLIC KEY-----"), "what is certified is a public key");
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
