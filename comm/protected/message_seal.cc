#include "comm/protected/message_seal.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace medley {
namespace {

constexpr size_t kTagBytes = 16, kNonceBytes = 12;
// OpenSSL takes sizes as int.
constexpr size_t kMostAtOnce = size_t{1} << 30;
// Of a trailer.
constexpr size_t kSizeAt = 8, kSealAt = 16;
constexpr char kKeyLabel[] = "medley message key 1";

// Out of memory, or a broken library. Better no process than one whose messages only look protected.
[[noreturn]] void GiveUp() {
  std::fputs("libcrypto does not encrypt\n", stderr);
  std::abort();
}
void Require(bool done) {
  if (!done) GiveUp();
}

// Little-endian, like every machine that this runs on.
template <typename T>
void Append(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// As a WireTag has them: kind, channel, sequence.
uint32_t TagBits(MessageTag tag) {
  return static_cast<uint32_t>(tag.kind) << 21 | static_cast<uint32_t>(tag.channel) << 10 | tag.sequence;
}

// What is sealed beside the bytes. All of fixed size, so nothing is ambiguous.
struct Associated {
  uint32_t sender, receiver, tag, reserved;
  uint64_t number, bytes;
};
static_assert(sizeof(Associated) == 32);

unsigned char* Raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }
const unsigned char* Raw(const std::byte* bytes) { return reinterpret_cast<const unsigned char*>(bytes); }

}  // namespace

MessageKey DeriveMessageKey(const std::string& secret, uint64_t attempt, int sender, int receiver) {
  std::string info = kKeyLabel;
  Append(info, attempt);
  Append(info, static_cast<uint32_t>(sender));
  Append(info, static_cast<uint32_t>(receiver));
  EVP_KDF* const hkdf = EVP_KDF_fetch(nullptr, "HKDF", nullptr);
  Require(hkdf != nullptr);
  EVP_KDF_CTX* const context = EVP_KDF_CTX_new(hkdf);
  EVP_KDF_free(hkdf);
  Require(context != nullptr);
  char digest[] = "SHA256";
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, const_cast<char*>(secret.data()), secret.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info.data(), info.size()),
      OSSL_PARAM_construct_end()};
  MessageKey key = {};
  Require(EVP_KDF_derive(context, key.data(), key.size(), parameters) == 1);
  EVP_KDF_CTX_free(context);
  return key;
}

// A cipher that has the key; making one takes as long as sealing a kilobyte.
class MessageSeal::Context {
 public:
  explicit Context(const MessageKey& key) : cipher_(EVP_CIPHER_CTX_new()) {
    Require(cipher_ != nullptr);
    Require(EVP_CipherInit_ex(cipher_, EVP_aes_256_gcm(), nullptr, key.data(), nullptr, 1) == 1);
  }
  ~Context() { EVP_CIPHER_CTX_free(cipher_); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  void Begin(const Associated& associated, bool encrypts) {
    unsigned char nonce[kNonceBytes];
    std::memcpy(nonce, &associated.tag, sizeof(associated.tag));
    std::memcpy(nonce + sizeof(associated.tag), &associated.number, sizeof(associated.number));
    int written = 0;
    Require(EVP_CipherInit_ex(cipher_, nullptr, nullptr, nullptr, nonce, encrypts ? 1 : 0) == 1);
    Require(EVP_CipherUpdate(cipher_, nullptr, &written, reinterpret_cast<const unsigned char*>(&associated),
                             sizeof(associated)) == 1);
  }
  // From `from` to `to`, which may be the same.
  void Run(const std::byte* from, std::byte* to, size_t bytes) {
    for (size_t at = 0; at < bytes; at += kMostAtOnce) {
      const int count = static_cast<int>(std::min(kMostAtOnce, bytes - at));
      int written = 0;
      Require(EVP_CipherUpdate(cipher_, Raw(to + at), &written, Raw(from + at), count) == 1);
    }
  }
  void Finish(std::byte* tag) {
    unsigned char none[kTagBytes];
    int written = 0;
    Require(EVP_CipherFinal_ex(cipher_, none, &written) == 1);
    Require(EVP_CIPHER_CTX_ctrl(cipher_, EVP_CTRL_GCM_GET_TAG, kTagBytes, tag) == 1);
  }
  bool Matches(const std::byte* tag) {
    unsigned char wanted[kTagBytes], none[kTagBytes];
    std::memcpy(wanted, tag, kTagBytes);
    int written = 0;
    Require(EVP_CIPHER_CTX_ctrl(cipher_, EVP_CTRL_GCM_SET_TAG, kTagBytes, wanted) == 1);
    return EVP_CipherFinal_ex(cipher_, none, &written) == 1;
  }

 private:
  EVP_CIPHER_CTX* const cipher_;
};

MessageSeal::MessageSeal(MessageProtection protection, const MessageKey& key, int sender, int receiver)
    : protection_(protection), key_(key), sender_(sender), receiver_(receiver) {}

MessageSeal::~MessageSeal() { OPENSSL_cleanse(key_.data(), key_.size()); }

uint64_t MessageSeal::NumberIn(const MessageTrailer& trailer) {
  uint64_t number = 0;
  std::memcpy(&number, trailer.data(), sizeof(number));
  return number;
}

uint64_t MessageSeal::SizeIn(const MessageTrailer& trailer) {
  uint64_t bytes = 0;
  std::memcpy(&bytes, trailer.data() + kSizeAt, sizeof(bytes));
  return bytes;
}

std::unique_ptr<MessageSeal::Context> MessageSeal::TakeContext() const {
  {
    MutexLock lock(mutex_);
    if (!free_.empty()) {
      std::unique_ptr<Context> context = std::move(free_.back());
      free_.pop_back();
      return context;
    }
  }
  return std::make_unique<Context>(key_);
}

void MessageSeal::GiveBack(std::unique_ptr<Context> context) const {
  MutexLock lock(mutex_);
  free_.push_back(std::move(context));
}

uint64_t MessageSeal::Checksum(MessageTag tag, uint64_t number, absl::Span<const std::byte> bytes) const {
  const Associated associated{static_cast<uint32_t>(sender_),
                              static_cast<uint32_t>(receiver_),
                              TagBits(tag),
                              0,
                              number,
                              bytes.size()};
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), XXH3_64bits(&associated, sizeof(associated)));
}

void MessageSeal::Seal(MessageTag tag, uint64_t number, absl::Span<const std::byte> plain, std::byte* sealed,
                       MessageTrailer& trailer) const {
  const uint64_t bytes = plain.size();
  std::memcpy(trailer.data(), &number, sizeof(number));
  std::memcpy(trailer.data() + kSizeAt, &bytes, sizeof(bytes));
  std::byte* const seal = trailer.data() + kSealAt;
  if (!Encrypts()) {
    const uint64_t checksum = Checksum(tag, number, plain);
    std::memcpy(seal, &checksum, sizeof(checksum));
    return;
  }
  std::unique_ptr<Context> context = TakeContext();
  context->Begin({static_cast<uint32_t>(sender_), static_cast<uint32_t>(receiver_), TagBits(tag), 0, number,
                  plain.size()},
                 /*encrypts=*/true);
  context->Run(plain.data(), sealed, plain.size());
  context->Finish(seal);
  GiveBack(std::move(context));
}

bool MessageSeal::Open(MessageTag tag, uint64_t number, absl::Span<std::byte> bytes,
                       const MessageTrailer& trailer) const {
  const std::byte* const seal = trailer.data() + kSealAt;
  bool is_true = NumberIn(trailer) == number && SizeIn(trailer) == bytes.size();
  if (is_true && Encrypts()) {
    std::unique_ptr<Context> context = TakeContext();
    context->Begin({static_cast<uint32_t>(sender_), static_cast<uint32_t>(receiver_), TagBits(tag), 0, number,
                    bytes.size()},
                   /*encrypts=*/false);
    context->Run(bytes.data(), bytes.data(), bytes.size());
    is_true = context->Matches(seal);
    GiveBack(std::move(context));
  } else if (is_true) {
    const uint64_t checksum = Checksum(tag, number, bytes);
    is_true = std::memcmp(seal, &checksum, sizeof(checksum)) == 0;
  }
  if (!is_true) std::fill(bytes.begin(), bytes.end(), std::byte{});
  return is_true;
}

}  // namespace medley
