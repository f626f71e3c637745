#include "comm/ucx/ucx_address.h"

#include <xxhash.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "comm/transport/message_tag.h"

namespace medley {
namespace {

// Little-endian, like every machine that this runs on.
constexpr uint32_t kMagic = 0x55594C4D;  // "MLYU"
constexpr uint32_t kVersion = 2;
struct Header {
  uint32_t magic, version;
  uint64_t epoch;
  uint64_t process_started_ticks;
  uint32_t process, rank, host_bytes, any_bytes, network_bytes, zero;
};
static_assert(sizeof(Header) == 48);
using Checksum = uint64_t;

absl::Status Refuse(const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("UCX address: ", why));
}

}  // namespace

std::string EncodeAddress(const UcxAddress& address) {
  const Header header{kMagic,
                      kVersion,
                      address.epoch,
                      address.process.started_ticks,
                      static_cast<uint32_t>(address.process.id),
                      static_cast<uint32_t>(address.rank),
                      static_cast<uint32_t>(address.host.size()),
                      static_cast<uint32_t>(address.any.size()),
                      static_cast<uint32_t>(address.network.size()),
                      0};
  std::string bytes(sizeof(Header), '\0');
  std::memcpy(bytes.data(), &header, sizeof(header));
  bytes.append(address.host).append(address.any).append(address.network);
  const Checksum sum = XXH64(bytes.data(), bytes.size(), /*seed=*/0);
  bytes.append(reinterpret_cast<const char*>(&sum), sizeof(sum));
  return bytes;
}

absl::StatusOr<UcxAddress> DecodeAddress(const std::string& bytes) {
  if (bytes.size() > kMaximumAddressBytes) {
    return Refuse(absl::StrCat(bytes.size(), " bytes, more than ", kMaximumAddressBytes));
  }
  if (bytes.size() < sizeof(Header) + sizeof(Checksum))
    return Refuse(absl::StrCat("cut to ", bytes.size(), " bytes"));
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != kMagic) return Refuse("does not begin as one");
  if (header.version != kVersion)
    return Refuse(absl::StrCat("version is ", header.version, ", not ", kVersion));
  const uint64_t expected = sizeof(Header) + uint64_t{header.host_bytes} + header.any_bytes +
                            header.network_bytes + sizeof(Checksum);
  if (bytes.size() != expected) return Refuse(absl::StrCat(bytes.size(), " bytes, not ", expected));
  Checksum sum;
  std::memcpy(&sum, bytes.data() + bytes.size() - sizeof(sum), sizeof(sum));
  if (sum != XXH64(bytes.data(), bytes.size() - sizeof(sum), /*seed=*/0))
    return Refuse("the checksum differs");
  if (header.rank >= kMaximumRanks) {
    return Refuse(absl::StrCat("rank is ", header.rank, ", not in [0, ", kMaximumRanks, ")"));
  }
  if (header.zero != 0) return Refuse("a reserved field is set");
  if (header.any_bytes == 0) return Refuse("no worker address");

  UcxAddress address;
  address.epoch = header.epoch;
  address.rank = static_cast<int>(header.rank);
  address.process = {static_cast<int32_t>(header.process), header.process_started_ticks};
  size_t at = sizeof(Header);
  const auto take = [&](size_t length) {
    at += length;
    return bytes.substr(at - length, length);
  };
  address.host = take(header.host_bytes);
  address.any = take(header.any_bytes);
  address.network = take(header.network_bytes);
  return address;
}

}  // namespace medley
