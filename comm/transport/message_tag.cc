#include "comm/transport/message_tag.h"

#include "absl/strings/str_cat.h"

namespace medley {
namespace {

constexpr int kEpochShift = 52, kSourceShift = 40, kKindShift = 36, kChannelShift = 20;
constexpr uint64_t kEpochMask = 0xFFF;

const char* KindName(MessageTag::Kind kind) {
  switch (kind) {
    case MessageTag::Kind::kActivation: return "activation";
    case MessageTag::Kind::kGradient: return "gradient";
    case MessageTag::Kind::kReduce: return "reduce";
    case MessageTag::Kind::kScalars: return "scalars";
    case MessageTag::Kind::kProbe: return "probe";
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<uint64_t> PackTag(const WireTag& tag) {
  if (tag.source < 0 || tag.source >= kMaximumRanks) {
    return absl::InvalidArgumentError(
        absl::StrCat("source is ", tag.source, ", not in [0, ", kMaximumRanks, ")"));
  }
  if (KindName(tag.message.kind) == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("kind is ", static_cast<int>(tag.message.kind), ", not one of the named kinds"));
  }
  if (tag.message.sequence >= kMaximumSequences) {
    return absl::InvalidArgumentError(
        absl::StrCat("sequence is ", tag.message.sequence, ", not in [0, ", kMaximumSequences, ")"));
  }
  return (tag.epoch & kEpochMask) << kEpochShift | static_cast<uint64_t>(tag.source) << kSourceShift |
         static_cast<uint64_t>(tag.message.kind) << kKindShift |
         static_cast<uint64_t>(tag.message.channel) << kChannelShift | tag.message.sequence;
}

absl::StatusOr<WireTag> UnpackTag(uint64_t bits) {
  WireTag tag;
  tag.epoch = bits >> kEpochShift;
  tag.source = static_cast<int>(bits >> kSourceShift & (kMaximumRanks - 1));
  tag.message.kind = static_cast<MessageTag::Kind>(bits >> kKindShift & 0xF);
  tag.message.channel = static_cast<uint16_t>(bits >> kChannelShift);
  tag.message.sequence = static_cast<uint32_t>(bits & (kMaximumSequences - 1));
  if (KindName(tag.message.kind) == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("kind is ", static_cast<int>(tag.message.kind), ", not one of the named kinds"));
  }
  return tag;
}

std::string DescribeTag(const MessageTag& tag) {
  const char* kind = KindName(tag.kind);
  return absl::StrCat(kind == nullptr ? "unknown" : kind, " channel ", tag.channel, " sequence ",
                      tag.sequence);
}

}  // namespace medley
