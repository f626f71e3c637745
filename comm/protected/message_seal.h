#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "comm/transport/transport.h"
#include "runtime/base/mutex.h"
#include "runtime/ir/link/message_protection.h"

namespace medley {

// A key of one direction between two ranks of an attempt.
using MessageKey = std::array<uint8_t, 32>;

// HKDF-SHA256 of the attempt's secret, which must not be empty, over attempt, sender and receiver: no two directions, pairs or
// attempts have a key in common.
MessageKey DeriveMessageKey(const std::string& secret, uint64_t attempt, int sender, int receiver);

// Room for the largest trailer: the number of the message, how many bytes it has, then its seal.
inline constexpr size_t kMostTrailerBytes = 32;
using MessageTrailer = std::array<std::byte, kMostTrailerBytes>;

// Seals the messages that one rank sends to another, and opens them there. A seal covers the bytes, how many they are, sender,
// receiver, tag, and the message's number among those of its tag, from 0; so a sealed message opens as nothing but itself.
//
// A checksum is XXH3 of 64 bits. Encryption is AES-256-GCM; the nonce is tag and number, so that a key never sees one twice as
// long as numbers do not repeat.
//
// Thread-safe: messages are sealed and opened beside each other.
class MessageSeal {
 public:
  // `protection`: not kNone. `key`: of encryption alone.
  MessageSeal(MessageProtection protection, const MessageKey& key, int sender, int receiver);
  ~MessageSeal();
  MessageSeal(const MessageSeal&) = delete;
  MessageSeal& operator=(const MessageSeal&) = delete;

  // Whether the bytes that go over the wire are others than those that were given.
  bool Encrypts() const { return protection_ == MessageProtection::kEncryption; }
  // Of a trailer: 24, or 32 of encryption.
  size_t trailer_bytes() const { return TrailerBytes(protection_); }
  static size_t TrailerBytes(MessageProtection protection) {
    return 2 * sizeof(uint64_t) + (protection == MessageProtection::kEncryption ? 16 : 8);
  }

  // `sealed` gets the encrypted bytes, as many as `plain`, which it does not overlap; of a checksum it is not touched.
  void Seal(MessageTag tag, uint64_t number, absl::Span<const std::byte> plain, std::byte* sealed,
            MessageTrailer& trailer) const;
  // Opens `bytes` where they are. False: they are not what was sealed with this tag and number; they are all zeros then.
  bool Open(MessageTag tag, uint64_t number, absl::Span<std::byte> bytes,
            const MessageTrailer& trailer) const;

  // What a trailer says of its message; Open tells whether it is true.
  static uint64_t NumberIn(const MessageTrailer& trailer);
  static uint64_t SizeIn(const MessageTrailer& trailer);

 private:
  class Context;
  uint64_t Checksum(MessageTag tag, uint64_t number, absl::Span<const std::byte> bytes) const;
  std::unique_ptr<Context> TakeContext() const;
  void GiveBack(std::unique_ptr<Context> context) const;

  const MessageProtection protection_;
  MessageKey key_;
  const int sender_, receiver_;
  mutable Mutex mutex_;
  mutable std::vector<std::unique_ptr<Context>> free_
      ABSL_GUARDED_BY(mutex_);  // as many as were at work at once
};

}  // namespace medley
