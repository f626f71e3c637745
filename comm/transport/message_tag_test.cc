#include "comm/transport/message_tag.h"

#include <catch2/catch.hpp>
#include <random>
#include <set>

namespace medley {
namespace {

WireTag RandomTag(std::mt19937_64& random) {
  WireTag tag;
  tag.epoch = random();
  tag.source = static_cast<int>(random() % kMaximumRanks);
  tag.message.kind = static_cast<MessageTag::Kind>(1 + random() % 5);
  tag.message.channel = static_cast<uint16_t>(random());
  tag.message.sequence = static_cast<uint32_t>(random() % kMaximumSequences);
  return tag;
}

TEST_CASE("a tag survives packing, save the high bits of the epoch") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{200}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const WireTag tag = RandomTag(random);
  const absl::StatusOr<uint64_t> bits = PackTag(tag);
  REQUIRE(bits.ok());
  const absl::StatusOr<WireTag> back = UnpackTag(*bits);
  REQUIRE(back.ok());
  CHECK(back->epoch == tag.epoch % 4096);
  CHECK(back->source == tag.source);
  CHECK(back->message.kind == tag.message.kind);
  CHECK(back->message.channel == tag.message.channel);
  CHECK(back->message.sequence == tag.message.sequence);
}

TEST_CASE("the largest value of every field leaves the others alone") {
  std::set<uint64_t> seen;
  const MessageTag zero{MessageTag::Kind::kActivation, 0, 0};
  for (const WireTag& tag : {WireTag{0, 0, zero}, WireTag{4095, 0, zero}, WireTag{0, 4095, zero},
                             WireTag{0, 0, {MessageTag::Kind::kProbe, 0, 0}},
                             WireTag{0, 0, {MessageTag::Kind::kActivation, 65535, 0}},
                             WireTag{0, 0, {MessageTag::Kind::kActivation, 0, kMaximumSequences - 1}}}) {
    const absl::StatusOr<uint64_t> bits = PackTag(tag);
    REQUIRE(bits.ok());
    seen.insert(*bits);
  }
  CHECK(seen == std::set<uint64_t>{0x0000001000000000, 0xFFF0001000000000, 0x000FFF1000000000,
                                   0x0000005000000000, 0x0000001FFFF00000, 0x00000010000FFFFF});
}

TEST_CASE("a field that does not fit is refused by name") {
  const MessageTag good;
  CHECK(PackTag({0, -1, good}).status().message() == "source is -1, not in [0, 4096)");
  CHECK(PackTag({0, 4096, good}).status().message() == "source is 4096, not in [0, 4096)");
  MessageTag long_sequence = good;
  long_sequence.sequence = kMaximumSequences;
  CHECK(PackTag({0, 0, long_sequence}).status().message() == "sequence is 1048576, not in [0, 1048576)");
  for (const int kind : {0, 6, 15, 16, 255}) {
    CAPTURE(kind);
    MessageTag odd = good;
    odd.kind = static_cast<MessageTag::Kind>(kind);
    CHECK(absl::IsInvalidArgument(PackTag({0, 0, odd}).status()));
    if (kind < 16) CHECK(absl::IsInvalidArgument(UnpackTag(static_cast<uint64_t>(kind) << 36).status()));
  }
}

}  // namespace
}  // namespace medley
