#include "comm/transport/attempt_token.h"

#include <catch2/catch.hpp>
#include <set>

namespace medley {
namespace {

TEST_CASE("a token is HMAC-SHA256, cut, of purpose, attempt and rank") {
  // Computed by another implementation (Python's hmac) of the same definition.
  CHECK(AttemptToken("", 5, 0) == 0x0A1B5A);
  CHECK(AttemptToken("0123456789abcdef", uint64_t{1} << 40, 4095) == 0x8137B7);
}

TEST_CASE("secret, attempt and rank each change the token") {
  std::set<uint32_t> tokens;
  for (const char* secret : {"", "a", "b"}) {
    for (const uint64_t attempt : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 12, uint64_t{1} << 63}) {
      for (int rank = 0; rank < 20; ++rank) tokens.insert(AttemptToken(secret, attempt, rank));
    }
  }
  CHECK(tokens.size() == 3 * 4 * 20);
  CHECK(*tokens.rbegin() < uint32_t{1} << kAttemptTokenBits);
}

}  // namespace
}  // namespace medley
