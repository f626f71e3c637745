#pragma once
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "comm/ucx/process_identity.h"

namespace medley {

// What a rank tells the others so that they can reach its UCX worker.
struct UcxAddress {
  uint64_t attempt = 0;
  int rank = 0;
  ProcessIdentity process;
  std::string host;     // HostIdentity() of its process; empty: it shares memory with nobody
  std::string any;      // packed UCX address of all its transports; may be reached from the same host only
  std::string network;  // packed UCX address of its network devices alone; may be empty
};

// As bytes for the wire, sealed (sealed_bytes.h): lengths and the fields.
std::string EncodeAddress(const UcxAddress& address);

// The inverse. UCX reads packed addresses on trust, so nothing that was cut, altered or made up by mistake
// passes. (The checksum is no signature: who may send addresses is for the control plane to decide.)
// InvalidArgument: none of ours, another version, cut, too long, or a checksum that differs; says which.
absl::StatusOr<UcxAddress> DecodeAddress(const std::string& bytes);

inline constexpr size_t kMaximumAddressBytes = 64 << 10;

}  // namespace medley
