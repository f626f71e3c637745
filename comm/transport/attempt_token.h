#pragma once
#include <cstdint>
#include <string>

namespace medley {

inline constexpr int kAttemptTokenBits = 24;

// The mark that every message to `rank` in `attempt` carries, below 2^24: HMAC-SHA256 of attempt and rank
// under `secret`, its first bits. So a message of another attempt, or of somebody who does not know the
// secret, is told from a true one, save by a chance of 2^-24. With an empty secret (tests) it depends on
// attempt and rank alone.
uint32_t AttemptToken(const std::string& secret, uint64_t attempt, int rank);

}  // namespace medley
