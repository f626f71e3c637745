#pragma once
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "comm/transport/transport.h"

namespace medley {

// The 64 bits by which a message finds its receive. From the top:
//
//   bits 63..52  epoch, its lowest 12 bits: enough to tell an epoch from the late messages of the one before
//   bits 51..40  rank of the sender
//   bits 39..36  MessageTag::Kind
//   bits 35..20  MessageTag::channel
//   bits 19..0   MessageTag::sequence
struct WireTag {
  uint64_t epoch = 0;
  int source = 0;
  MessageTag message;
};

inline constexpr int kMaximumRanks = 1 << 12;
inline constexpr uint32_t kMaximumSequences = 1 << 20;

// InvalidArgument: source outside [0, 4096), kind not among the named ones, or sequence >= 2^20; names the
// field.
absl::StatusOr<uint64_t> PackTag(const WireTag& tag);

// The inverse, save that `epoch` comes back modulo 4096. InvalidArgument: the kind is none of ours.
absl::StatusOr<WireTag> UnpackTag(uint64_t bits);

// For messages to people: "reduce channel 3 sequence 17".
std::string DescribeTag(const MessageTag& tag);

}  // namespace medley
