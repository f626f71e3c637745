#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace medley {

// SHA-256 and HMAC-SHA256 values.
using Digest = std::array<uint8_t, 32>;
using Nonce = std::array<uint8_t, 32>;

Digest Sha256(std::string_view bytes);
Digest HmacSha256(std::string_view key, std::string_view bytes);

// Unpredictable to others. Internal: the system gives no random numbers.
absl::StatusOr<Nonce> FreshNonce();

// Takes as long for every pair of values.
bool EqualInConstantTime(const Digest& a, const Digest& b);

// One side of a connection, as it describes itself before it has proved anything.
struct Introduction {
  uint64_t attempt = 0;
  uint32_t from = 0, to = 0;  // ranks
  Nonce nonce = {};           // fresh: this side's challenge
  Digest payload = {};        // SHA-256 of what it will hand over once both have proved themselves
  Digest address = {};        // SHA-256 of its session address

  bool operator==(const Introduction&) const = default;
};

enum class Role : uint8_t { kConnector = 1, kAcceptor = 2 };

// What the side of `role` sends to prove that it knows `secret`. It covers the protocol's name, who proves,
// and everything both have said, so a proof is of no use in any other connection, in the other direction or
// by another rank.
Digest Proof(std::string_view secret, Role role, const Introduction& connector, const Introduction& acceptor);

}  // namespace medley
