#include "agent/worker/memory_link.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

EndMemory OfDevice(double copy_bytes_per_second) {
  EndMemory memory{.host_reaches = false};
  memory.copies.to_host = {10e-6, copy_bytes_per_second};
  memory.copies.to_device = {12e-6, copy_bytes_per_second / 2};
  return memory;
}

TEST_CASE("a memory goes to the other end and back as it is") {
  const EndMemory memory = OfDevice(3.3e9);
  const absl::StatusOr<EndMemory> back = DecodeMemory(EncodeMemory(memory));
  REQUIRE(back.ok());
  CHECK_FALSE(back->host_reaches);
  CHECK_FALSE(back->network_reaches);
  CHECK(back->copies == memory.copies);
  CHECK(EncodeMemory(memory).size() <= 200);
  CHECK(DecodeMemory(EncodeMemory(EndMemory())).ok());
}

TEST_CASE("what is no memory is refused") {
  for (const char* text :
       {"", "memory", "memory 1 0 0 1 0", "memory 2 0 0 1 0 1", "memory 1 0 0 0 0 1", "memory 1 0 nan 1 0 1",
        "memory 1 0 -1 1 0 1", "memory 1 0 0 1 0 1 7", "other 1 0 0 1 0 1"}) {
    CAPTURE(text);
    CHECK(absl::IsInvalidArgument(DecodeMemory(text).status()));
  }
}

TEST_CASE(
    "between hosts a link is what was measured; between devices it has the copies in it, and says which "
    "way") {
  const LinkModel measured = LinkModel::Line(20e-6, 5e9);
  const auto hosts = LinkOf(EndMemory(), EndMemory(), measured);
  REQUIRE(hosts.ok());
  CHECK(hosts->transfer == measured);
  CHECK(hosts->explanation.empty());

  const EndMemory slow = OfDevice(1e9);
  const auto one = LinkOf(slow, EndMemory(), measured), other = LinkOf(EndMemory(), slow, measured);
  REQUIRE((one.ok() && other.ok()));
  CHECK(one->transfer == other->transfer);  // the slower direction, whoever asks
  const double bytes = 64 << 20;
  CHECK(one->transfer.Seconds(bytes) > bytes / 0.5e9);                // no faster than the copies
  CHECK(one->transfer.Seconds(bytes) < bytes / 0.5e9 + bytes / 5e9);  // but beside the transfer
  CHECK_THAT(one->explanation, Catch::Contains("16.0 MiB: staged to host in "));
  CHECK(one->explanation.size() < 500);
}

}  // namespace
}  // namespace medley
