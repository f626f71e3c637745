#pragma once
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "comm/transport/attempt_token.h"
#include "comm/transport/transport.h"

namespace medley {

// The 64 bits by which a message finds its receive. From the top:
//
//   bits 63..40  AttemptToken of the receiver: without it a message is none of this attempt's
//   bits 39..24  rank of the sender
//   bits 23..21  MessageTag::Kind
//   bits 20..10  MessageTag::channel
//   bits  9..0   MessageTag::sequence
//
// What the widths hold: 65536 ranks, a model of two thousand gradient slices. Sequences come again after a thousand
// messages, which is enough: messages of one tag keep their order.
struct WireTag {
  uint32_t token = 0;
  int source = 0;
  MessageTag message;
};

inline constexpr int kMaximumRanks = 1 << 16;
inline constexpr int kTokenShift = 40;

// InvalidArgument: token >= 2^24, source outside [0, 65536), kind not among the named ones, channel >= 2048,
// or sequence >= 1024; names the field.
absl::StatusOr<uint64_t> PackTag(const WireTag& tag);

// The inverse. InvalidArgument: the kind is none of ours.
absl::StatusOr<WireTag> UnpackTag(uint64_t bits);

// "activation", "reduce", ...; null if it is none of the named kinds.
const char* NameOf(MessageTag::Kind kind);

// For messages to people: "reduce channel 3 sequence 17".
std::string DescribeTag(const MessageTag& tag);

}  // namespace medley
