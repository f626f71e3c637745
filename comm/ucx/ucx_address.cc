#include "comm/ucx/ucx_address.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "comm/transport/message_tag.h"
#include "comm/transport/sealed_bytes.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr SealKind kKind{"UCX address", /*magic=*/0x55594C4D, /*version=*/2, kMaximumAddressBytes};  // "MLYU"

struct Header {
  uint64_t attempt;
  uint64_t process_started_ticks;
  uint32_t process, rank, host_bytes, any_bytes, network_bytes, zero;
};
static_assert(sizeof(Header) == 40);

absl::Status Refuse(const std::string& why) { return RefuseSealed(kKind, why); }

}  // namespace

std::string EncodeAddress(const UcxAddress& address) {
  const Header header{address.attempt,
                      address.process.started_ticks,
                      static_cast<uint32_t>(address.process.id),
                      static_cast<uint32_t>(address.rank),
                      static_cast<uint32_t>(address.host.size()),
                      static_cast<uint32_t>(address.any.size()),
                      static_cast<uint32_t>(address.network.size()),
                      0};
  std::string body(reinterpret_cast<const char*>(&header), sizeof(header));
  body.append(address.host).append(address.any).append(address.network);
  return Seal(kKind, body);
}

absl::StatusOr<UcxAddress> DecodeAddress(const std::string& bytes) {
  ASSIGN_OR_RETURN(std::string_view body, Unseal(kKind, bytes));
  Header header;
  if (body.size() < sizeof(header)) return Refuse(absl::StrCat("cut to ", bytes.size(), " bytes"));
  std::memcpy(&header, body.data(), sizeof(header));
  body.remove_prefix(sizeof(header));
  const uint64_t expected = uint64_t{header.host_bytes} + header.any_bytes + header.network_bytes;
  if (body.size() != expected) {
    return Refuse(absl::StrCat(body.size(), " bytes after the header, not ", expected));
  }
  if (header.rank >= kMaximumRanks) {
    return Refuse(absl::StrCat("rank is ", header.rank, ", not in [0, ", kMaximumRanks, ")"));
  }
  if (header.zero != 0) return Refuse("a reserved field is set");
  if (header.any_bytes == 0) return Refuse("no worker address");

  UcxAddress address;
  address.attempt = header.attempt;
  address.rank = static_cast<int>(header.rank);
  address.process = {static_cast<int32_t>(header.process), header.process_started_ticks};
  const auto take = [&](size_t length) {
    const std::string taken(body.substr(0, length));
    body.remove_prefix(length);
    return taken;
  };
  address.host = take(header.host_bytes);
  address.any = take(header.any_bytes);
  address.network = take(header.network_bytes);
  return address;
}

}  // namespace medley
