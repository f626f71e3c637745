#include "comm/transport/message_tag.h"

#include "absl/strings/str_cat.h"

namespace medley {
namespace {

constexpr int kSourceShift = 24, kKindShift = 21, kChannelShift = 10;
constexpr uint32_t kKinds = 1 << 3;
static_assert(kTokenShift + kAttemptTokenBits == 64);

absl::Status OutOfRange(const char* field, int64_t value, int64_t limit) {
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, ", not in [0, ", limit, ")"));
}

}  // namespace

const char* NameOf(MessageTag::Kind kind) {
  switch (kind) {
    case MessageTag::Kind::kActivation:
      return "activation";
    case MessageTag::Kind::kGradient:
      return "gradient";
    case MessageTag::Kind::kReduce:
      return "reduce";
    case MessageTag::Kind::kScalars:
      return "scalars";
    case MessageTag::Kind::kProbe:
      return "probe";
    case MessageTag::Kind::kReshard:
      return "reshard";
  }
  return nullptr;
}

absl::StatusOr<uint64_t> PackTag(const WireTag& tag) {
  const MessageTag& message = tag.message;
  if (tag.token >> kAttemptTokenBits != 0)
    return OutOfRange("token", tag.token, int64_t{1} << kAttemptTokenBits);
  if (tag.source < 0 || tag.source >= kMaximumRanks) return OutOfRange("source", tag.source, kMaximumRanks);
  if (NameOf(message.kind) == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("kind is ", static_cast<int>(message.kind), ", not one of the named kinds"));
  }
  if (message.channel >= kMaximumChannels) return OutOfRange("channel", message.channel, kMaximumChannels);
  if (message.sequence >= kMaximumSequences)
    return OutOfRange("sequence", message.sequence, kMaximumSequences);
  return static_cast<uint64_t>(tag.token) << kTokenShift | static_cast<uint64_t>(tag.source) << kSourceShift |
         static_cast<uint64_t>(message.kind) << kKindShift |
         static_cast<uint64_t>(message.channel) << kChannelShift | message.sequence;
}

absl::StatusOr<WireTag> UnpackTag(uint64_t bits) {
  WireTag tag;
  tag.token = static_cast<uint32_t>(bits >> kTokenShift);
  tag.source = static_cast<int>(bits >> kSourceShift & (kMaximumRanks - 1));
  tag.message.kind = static_cast<MessageTag::Kind>(bits >> kKindShift & (kKinds - 1));
  tag.message.channel = static_cast<uint16_t>(bits >> kChannelShift & (kMaximumChannels - 1));
  tag.message.sequence = static_cast<uint32_t>(bits & (kMaximumSequences - 1));
  if (NameOf(tag.message.kind) == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("kind is ", static_cast<int>(tag.message.kind), ", not one of the named kinds"));
  }
  return tag;
}

std::string DescribeTag(const MessageTag& tag) {
  const char* kind = NameOf(tag.kind);
  return absl::StrCat(kind == nullptr ? "unknown" : kind, " channel ", tag.channel, " sequence ",
                      tag.sequence);
}

}  // namespace medley
