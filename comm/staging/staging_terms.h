#pragma once
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/staging/copy_cost.h"
#include "runtime/ir/link/device_memory_strategy.h"

namespace medley {

// How one end gets messages between its memory and the network.
enum class Handling : uint8_t {
  kHost = 0,    // the memory is the host's: sent from and received into as it is
  kDirect = 1,  // a device's, which the network reads and writes
  kStaged = 2,  // through a ring of pinned chunks, copies and transfers at the same time
  kWhole = 3,   // through one pinned block, a copy of the whole before or after the transfer
};
std::string NameOf(Handling handling);

std::string NameOf(DeviceMemoryStrategy strategy);

// The memory of one end, as the choice needs to know it.
struct EndMemory {
  bool host_reaches = true;      // Buffer::host_address() is not null
  bool network_reaches = false;  // Transport::Reaches() its kind of address
  CopyCosts copies;              // of memory that the host does not reach, as measured
  // At which the network reads and writes it; 0: not measured, taken to be the link's.
  double direct_bytes_per_second = 0;
};

// What an end does. Direct if the network reaches the memory, unless that was measured to be slower than
// copying. InvalidArgument: direct was asked for where the network does not reach the memory; says what can
// be done.
absl::StatusOr<Handling> ChooseHandling(const EndMemory& end, DeviceMemoryStrategy asked);

// What an end tells every peer before the first message: together with the peer's it decides how messages
// look on the wire. Whole numbers, so that both ends, on whatever processors, come to the same.
struct StagingTerms {
  Handling handling = Handling::kHost;
  // That could be copied in the time that a copy costs beside its bytes; staged only.
  uint32_t chunk_overhead_bytes = 0;
  friend bool operator==(const StagingTerms&, const StagingTerms&) = default;
};

StagingTerms TermsOf(Handling handling, const CopyCosts& copies);

// Eight bytes. InvalidArgument: of another size, or a field is out of range; names it.
std::string EncodeTerms(const StagingTerms& terms);
absl::StatusOr<StagingTerms> DecodeTerms(const std::string& bytes);

inline constexpr int64_t kSmallestChunkBytes = int64_t{64} << 10;
inline constexpr int64_t kLargestChunkBytes = int64_t{4} << 20;

// A message of `bytes` between such ends goes as messages of so many bytes each, the last as many as are
// left, in order, under one tag; an empty one as one empty message. The whole unless either end stages. About
// the square root of bytes * overhead, which balances what more chunks cost against what a first chunk's copy
// delays.
int64_t WireChunkBytes(int64_t bytes, const StagingTerms& one, const StagingTerms& other);

}  // namespace medley
