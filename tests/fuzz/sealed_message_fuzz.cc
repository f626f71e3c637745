// A protected message as it comes from the network: bytes and trailer, of a checksum and encrypted.
#include <algorithm>
#include <cstring>

#include "comm/protected/message_seal.h"
#include "tests/fuzz/fuzz_target.h"

namespace medley {
namespace {

constexpr MessageTag kTag{MessageTag::Kind::kReduce, 3, 9};
constexpr uint64_t kNumber = 5;

const MessageSeal& SealOf(MessageProtection protection) {
  static const MessageSeal checksum(MessageProtection::kChecksum, {}, 0, 1);
  static const MessageSeal encryption(MessageProtection::kEncryption,
                                      DeriveMessageKey("a secret of the attempt", 7, 0, 1), 0, 1);
  return protection == MessageProtection::kChecksum ? checksum : encryption;
}

// First byte: which protection. Then the trailer, then the bytes.
std::string Sealed(MessageProtection protection, const std::string& plain) {
  const MessageSeal& seal = SealOf(protection);
  std::vector<std::byte> sealed(plain.size());
  MessageTrailer trailer = {};
  const absl::Span<const std::byte> bytes(reinterpret_cast<const std::byte*>(plain.data()), plain.size());
  seal.Seal(kTag, kNumber, bytes, sealed.data(), trailer);
  if (!seal.Encrypts()) std::copy(bytes.begin(), bytes.end(), sealed.begin());
  std::string all(1, static_cast<char>(protection));
  all.append(reinterpret_cast<const char*>(trailer.data()), seal.trailer_bytes());
  return all.append(reinterpret_cast<const char*>(sealed.data()), sealed.size());
}

}  // namespace

std::vector<std::string> FuzzSeeds() {
  std::vector<std::string> seeds;
  for (const auto protection : {MessageProtection::kChecksum, MessageProtection::kEncryption}) {
    for (const size_t size : {0, 1, 16, 300}) seeds.push_back(Sealed(protection, std::string(size, 'x')));
  }
  return seeds;
}

}  // namespace medley

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace medley;
  if (size == 0) return 0;
  const auto protection = data[0] == static_cast<uint8_t>(MessageProtection::kChecksum)
                              ? MessageProtection::kChecksum
                              : MessageProtection::kEncryption;
  const MessageSeal& seal = SealOf(protection);
  if (size - 1 < seal.trailer_bytes()) return 0;
  MessageTrailer trailer = {};
  std::memcpy(trailer.data(), data + 1, seal.trailer_bytes());
  const auto* const first = reinterpret_cast<const std::byte*>(data + 1 + seal.trailer_bytes());
  std::vector<std::byte> bytes(first, reinterpret_cast<const std::byte*>(data) + size);
  const bool opens = seal.Open(kTag, kNumber, absl::MakeSpan(bytes), trailer);
  if (!opens) {
    Demand(std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{}; }),
           "nothing is handed on of a message that does not open");
    return 0;
  }
  const std::string plain(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  Demand(Sealed(protection, plain).substr(1) == TextOf(data + 1, size - 1),
         "what opens is sealed as it came");
  Accepted();
  return 0;
}
