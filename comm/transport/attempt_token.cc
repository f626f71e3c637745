#include "comm/transport/attempt_token.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace medley {
namespace {

// No other use of the secret gives these bits.

constexpr std::string_view kPurpose = "medley message token 1";

}  // namespace

uint32_t AttemptToken(const std::string& secret, uint64_t attempt, int rank) {
  std::array<unsigned char, kPurpose.size() + 12> text;
  auto at = std::copy(kPurpose.begin(), kPurpose.end(), text.begin());
  for (int byte = 0; byte < 8; ++byte) *at++ = static_cast<unsigned char>(attempt >> 8 * byte);
  for (int byte = 0; byte < 4; ++byte)
    *at++ = static_cast<unsigned char>(static_cast<uint32_t>(rank) >> 8 * byte);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), text.data(), text.size(), digest.data(),
       /*md_len=*/nullptr);
  return static_cast<uint32_t>(digest[0]) << 16 | static_cast<uint32_t>(digest[1]) << 8 | digest[2];
}

}  // namespace medley
