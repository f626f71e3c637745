// Tags, which come with every message.
#include <algorithm>
#include <cstring>

#include "comm/transport/message_tag.h"
#include "tests/fuzz/fuzz_target.h"

namespace medley {
namespace {

template <typename T>
T Take(const uint8_t*& data) {
  T value;
  std::memcpy(&value, data, sizeof(value));
  data += sizeof(value);
  return value;
}

std::string SeedOf(uint32_t token, int source, uint8_t kind, uint16_t channel, uint32_t sequence) {
  std::string bytes;
  const auto put = [&](const auto& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  put(token);
  put(source);
  put(kind);
  put(channel);
  put(sequence);
  return bytes;
}

}  // namespace

std::vector<std::string> FuzzSeeds() {
  return {SeedOf(0, 0, 1, 0, 0), SeedOf(1, 2, 6, 4, 5),
          SeedOf((1 << 24) - 1, kMaximumRanks - 1, 3, kMaximumChannels - 1, kMaximumSequences - 1)};
}

}  // namespace medley

// Bits to be unpacked, and fields to be packed.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace medley;
  if (size >= 8) {
    uint64_t bits;
    std::memcpy(&bits, data, 8);
    const absl::StatusOr<WireTag> tag = UnpackTag(bits);
    if (tag.ok()) {
      const absl::StatusOr<uint64_t> again = PackTag(*tag);
      Demand(again.ok() && *again == bits, "an accepted tag is packed as it came");
      Demand(!DescribeTag(tag->message).empty(), "an accepted tag can be described");
    } else {
      DemandRefusal(tag.status());
    }
  }
  if (size < 15) return 0;
  WireTag tag;
  tag.token = Take<uint32_t>(data);
  tag.source = Take<int>(data);
  tag.message.kind = static_cast<MessageTag::Kind>(Take<uint8_t>(data));
  tag.message.channel = Take<uint16_t>(data);
  tag.message.sequence = Take<uint32_t>(data);
  const absl::StatusOr<uint64_t> bits = PackTag(tag);
  if (!bits.ok()) {
    DemandRefusal(bits.status());
    return 0;
  }
  Accepted();
  const absl::StatusOr<WireTag> back = UnpackTag(*bits);
  Demand(back.ok(), "a packed tag can be unpacked");
  Demand(back->token == tag.token && back->source == tag.source && back->message.kind == tag.message.kind &&
             back->message.channel == tag.message.channel && back->message.sequence == tag.message.sequence,
         "a packed tag is unpacked as it was");
  return 0;
}
