#include "runtime/engine/exec/channels.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

TEST_CASE("no slice of a model of any depth has the channel of a unit, or of checkpoints") {
  CHECK(kUnitChannel != kCheckpointChannel);
  for (int segment = 0; segment < 3 * kMaximumChannels; ++segment) {
    INFO("segment " << segment);
    const uint16_t channel = ChannelOfSlice(segment);
    REQUIRE(channel < kMaximumChannels);
    REQUIRE(channel != kUnitChannel);
    REQUIRE(channel != kCheckpointChannel);
  }
}

TEST_CASE("boundaries of any depth have channels") {
  for (int boundary = 0; boundary < 3 * kMaximumChannels; ++boundary)
    REQUIRE(ChannelOfBoundary(boundary) < kMaximumChannels);
}

}  // namespace
}  // namespace medley
