// Tokens by which agents join, which people copy.
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "runtime/security/join_token.h"
#include "tests/fuzz/fuzz_target.h"

namespace medley {
namespace {

void Try(const std::string& text) {
  const absl::StatusOr<JoinTokenText> token = ParseJoinToken(text);
  if (!token.ok()) return DemandRefusal(token.status());
  Accepted();
  Demand(FormatJoinToken(*token) == absl::StripAsciiWhitespace(text), "it is written as it came");
}

}  // namespace

std::vector<std::string> FuzzSeeds() {
  const std::string token =
      absl::StrCat("medley1.0123456789abcdef.", std::string(64, 'b'), ".", std::string(64, '7'));
  return {token, absl::StrCat(" ", token, "\n")};
}

}  // namespace medley

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  medley::Try(std::string(medley::TextOf(data, size)));
  return 0;
}
