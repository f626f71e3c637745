#pragma once
#include <cstdint>
#include <string>

namespace medley {

inline constexpr int kEpochTokenBits = 24;

// The mark that every message to `rank` in `epoch` carries, below 2^24: HMAC-SHA256 of epoch and rank under
// `secret`, its first bits. So a message of another epoch, or of somebody who does not know the secret, is
// told from a true one, save by a chance of 2^-24. With an empty secret (tests) it depends on epoch and rank
// alone.
uint32_t EpochToken(const std::string& secret, uint64_t epoch, int rank);

}  // namespace medley
