#include "comm/transport/message_tag.h"

#include <catch2/catch.hpp>
#include <random>
#include <set>

namespace medley {
namespace {

constexpr uint32_t kLargestToken = (1 << kAttemptTokenBits) - 1;

WireTag RandomTag(std::mt19937_64& random) {
  WireTag tag;
  tag.token = static_cast<uint32_t>(random() % (kLargestToken + 1));
  tag.source = static_cast<int>(random() % kMaximumRanks);
  tag.message.kind = static_cast<MessageTag::Kind>(1 + random() % 6);
  tag.message.channel = static_cast<uint16_t>(random() % kMaximumChannels);
  tag.message.sequence = static_cast<uint32_t>(random() % kMaximumSequences);
  return tag;
}

TEST_CASE("a tag survives packing") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{200}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const WireTag tag = RandomTag(random);
  const absl::StatusOr<uint64_t> bits = PackTag(tag);
  REQUIRE(bits.ok());
  const absl::StatusOr<WireTag> back = UnpackTag(*bits);
  REQUIRE(back.ok());
  CHECK(*bits >> kTokenShift == tag.token);
  CHECK(back->token == tag.token);
  CHECK(back->source == tag.source);
  CHECK(back->message.kind == tag.message.kind);
  CHECK(back->message.channel == tag.message.channel);
  CHECK(back->message.sequence == tag.message.sequence);
}

TEST_CASE("the largest value of every field leaves the others alone") {
  std::set<uint64_t> seen;
  const MessageTag zero{MessageTag::Kind::kActivation, 0, 0};
  for (const WireTag& tag : {WireTag{0, 0, zero}, WireTag{kLargestToken, 0, zero}, WireTag{0, 65535, zero},
                             WireTag{0, 0, {MessageTag::Kind::kReshard, 0, 0}},
                             WireTag{0, 0, {MessageTag::Kind::kActivation, kMaximumChannels - 1, 0}},
                             WireTag{0, 0, {MessageTag::Kind::kActivation, 0, kMaximumSequences - 1}}}) {
    const absl::StatusOr<uint64_t> bits = PackTag(tag);
    REQUIRE(bits.ok());
    seen.insert(*bits);
  }
  CHECK(seen == std::set<uint64_t>{0x0000000000200000, 0xFFFFFF0000200000, 0x000000FFFF200000,
                                   0x0000000000C00000, 0x00000000003FFC00, 0x00000000002003FF});
}

TEST_CASE("a field that does not fit is refused by name") {
  const MessageTag good;
  CHECK(PackTag({kLargestToken + 1, 0, good}).status().message() ==
        "token is 16777216, not in [0, 16777216)");
  CHECK(PackTag({0, -1, good}).status().message() == "source is -1, not in [0, 65536)");
  CHECK(PackTag({0, 65536, good}).status().message() == "source is 65536, not in [0, 65536)");
  MessageTag long_sequence = good, high_channel = good;
  long_sequence.sequence = kMaximumSequences;
  CHECK(PackTag({0, 0, long_sequence}).status().message() == "sequence is 1024, not in [0, 1024)");
  high_channel.channel = kMaximumChannels;
  CHECK(PackTag({0, 0, high_channel}).status().message() == "channel is 2048, not in [0, 2048)");
  for (const int kind : {0, 7, 8, 15, 255}) {
    CAPTURE(kind);
    MessageTag odd = good;
    odd.kind = static_cast<MessageTag::Kind>(kind);
    CHECK(absl::IsInvalidArgument(PackTag({0, 0, odd}).status()));
    if (kind < 8) CHECK(absl::IsInvalidArgument(UnpackTag(static_cast<uint64_t>(kind) << 21).status()));
  }
}

}  // namespace
}  // namespace medley
