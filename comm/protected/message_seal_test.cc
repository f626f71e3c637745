#include "comm/protected/message_seal.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <set>

namespace medley {
namespace {

using Bytes = std::vector<std::byte>;
constexpr MessageTag kTag{MessageTag::Kind::kReduce, 3, 9};
constexpr char kSecret[] = "sixteen bytes or more";

Bytes RandomBytes(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

MessageSeal SealOf(MessageProtection protection, int from = 0, int to = 1) {
  return MessageSeal(protection, DeriveMessageKey(kSecret, 5, from, to), from, to);
}

// What goes over the wire.
struct Sealed {
  Bytes bytes;
  MessageTrailer trailer = {};
};

Sealed SealedBy(const MessageSeal& seal, uint64_t number, const Bytes& plain, MessageTag tag = kTag) {
  Sealed sealed{.bytes = plain};
  Bytes encrypted(plain.size());
  seal.Seal(tag, number, plain, seal.Encrypts() ? encrypted.data() : nullptr, sealed.trailer);
  if (seal.Encrypts()) sealed.bytes = encrypted;
  return sealed;
}

bool Opens(const MessageSeal& seal, uint64_t number, Sealed sealed, MessageTag tag = kTag) {
  const bool opens = seal.Open(tag, number, absl::MakeSpan(sealed.bytes), sealed.trailer);
  if (!opens) {
    CHECK(
        std::all_of(sealed.bytes.begin(), sealed.bytes.end(), [](std::byte b) { return b == std::byte{}; }));
  }
  return opens;
}

#define BOTH_KINDS()                                                                                     \
  const MessageProtection kind = GENERATE(MessageProtection::kChecksum, MessageProtection::kEncryption); \
  CAPTURE(NameOf(kind))

TEST_CASE("what was sealed opens as it was, of any size, and encrypted bytes are others") {
  BOTH_KINDS();
  const size_t size = GENERATE(0, 1, 15, 16, 17, 240, 241, 4096, 1000003);
  CAPTURE(size);
  const MessageSeal seal = SealOf(kind);
  const Bytes plain = RandomBytes(size, size);
  Sealed sealed = SealedBy(seal, 7, plain);
  CHECK(MessageSeal::NumberIn(sealed.trailer) == 7);
  CHECK(MessageSeal::SizeIn(sealed.trailer) == size);
  if (size >= 15) CHECK((sealed.bytes != plain) == seal.Encrypts());
  REQUIRE(seal.Open(kTag, 7, absl::MakeSpan(sealed.bytes), sealed.trailer));
  CHECK(sealed.bytes == plain);
}

TEST_CASE("a bit that is altered anywhere keeps it closed", "[property]") {
  BOTH_KINDS();
  const MessageSeal seal = SealOf(kind);
  const Sealed sealed = SealedBy(seal, 2, RandomBytes(40, 1));
  for (size_t bit = 0; bit < sealed.bytes.size() * 8; ++bit) {
    CAPTURE(bit);
    Sealed altered = sealed;
    altered.bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    CHECK_FALSE(Opens(seal, 2, altered));
  }
  for (size_t bit = 0; bit < seal.trailer_bytes() * 8; ++bit) {
    CAPTURE(bit);
    Sealed altered = sealed;
    altered.trailer[bit / 8] ^= std::byte{1} << (bit % 8);
    CHECK_FALSE(Opens(seal, 2, altered));
  }
  Sealed cut = sealed;
  cut.bytes.pop_back();
  CHECK_FALSE(Opens(seal, 2, cut));
  CHECK(Opens(seal, 2, sealed));
}

TEST_CASE("it opens with its own number, tag, direction and ranks alone") {
  BOTH_KINDS();
  const MessageSeal seal = SealOf(kind);
  const Sealed sealed = SealedBy(seal, 2, RandomBytes(100, 1));
  CHECK(Opens(seal, 2, sealed));
  CHECK_FALSE(Opens(seal, 3, sealed));
  Sealed renumbered = sealed;
  renumbered.trailer[0] = std::byte{3};
  CHECK_FALSE(Opens(seal, 3, renumbered));
  for (const MessageTag other :
       {MessageTag{MessageTag::Kind::kGradient, 3, 9}, MessageTag{MessageTag::Kind::kReduce, 4, 9},
        MessageTag{MessageTag::Kind::kReduce, 3, 10}})
    CHECK_FALSE(Opens(seal, 2, sealed, other));
  CHECK_FALSE(Opens(SealOf(kind, 1, 0), 2, sealed));
  CHECK_FALSE(Opens(SealOf(kind, 0, 2), 2, sealed));
}

TEST_CASE("another key opens nothing, and each secret, attempt, sender and receiver has its own") {
  const std::set<MessageKey> keys = {
      DeriveMessageKey(kSecret, 5, 0, 1), DeriveMessageKey("sixteen bytes or less", 5, 0, 1),
      DeriveMessageKey(kSecret, 6, 0, 1), DeriveMessageKey(kSecret, 5, 1, 0),
      DeriveMessageKey(kSecret, 5, 0, 2), DeriveMessageKey(kSecret, 5, 2, 1)};
  CHECK(keys.size() == 6);
  const Sealed sealed = SealedBy(SealOf(MessageProtection::kEncryption), 0, RandomBytes(100, 1));
  for (const MessageKey& key : keys) {
    const MessageSeal seal(MessageProtection::kEncryption, key, 0, 1);
    CHECK(Opens(seal, 0, sealed) == (key == DeriveMessageKey(kSecret, 5, 0, 1)));
  }
}

// The value by RFC 5869's rules with Python's hmac and hashlib.
TEST_CASE("keys are HKDF-SHA256 of the secret") {
  const MessageKey key = DeriveMessageKey(std::string(32, '\x0b'), 1, 2, 3);
  const uint8_t expected[] = {0xf9, 0x49, 0x5a, 0xd1, 0xe1, 0x2f, 0x06, 0x54, 0xab, 0x1f, 0x7e,
                              0x91, 0xd8, 0x48, 0x1d, 0xb1, 0x74, 0x7d, 0x44, 0xf6, 0x5a, 0xbd,
                              0x02, 0xa4, 0xcc, 0x17, 0x4b, 0x99, 0xce, 0x6e, 0x9a, 0xa3};
  CHECK(std::equal(key.begin(), key.end(), expected, expected + sizeof(expected)));
}

}  // namespace
}  // namespace medley
