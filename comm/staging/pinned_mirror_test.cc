#include "comm/staging/pinned_mirror.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "kernels/host/host_queue.h"
#include "kernels/skeleton/skeleton_queue.h"

namespace medley {
namespace {

std::vector<float> Count(int64_t count) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
  return values;
}

absl::Span<const std::byte> AsBytes(const std::vector<float>& values) {
  return {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(float)};
}

// There, changed on the host, and back: the slice alone has changed.
void CheckRoundTrip(DeviceQueue& queue) {
  CAPTURE(queue.name());
  auto lane = queue.OpenCopyLane();
  REQUIRE(lane.ok());
  auto buffer = queue.Allocate({400});
  REQUIRE(buffer.ok());
  auto mirror = PinnedMirror::Create(queue, lane->get(), {buffer->get(), 40, 20});
  REQUIRE(mirror.ok());
  REQUIRE(mirror->bytes().size() == 80);
  std::vector<float> values = Count(100);
  REQUIRE(queue.Upload(AsBytes(values), **buffer, {0}).ok());
  const Fence written = queue.Record();
  PinnedMirror moved = *std::move(mirror);
  REQUIRE(moved.FromDevice(written).ok());
  auto* on_host = reinterpret_cast<float*>(moved.bytes().data());
  for (int i = 0; i < 20; ++i) {
    CHECK(on_host[i] == values[10 + i]);
    on_host[i] = values[10 + i] = -1.0f;
  }
  const auto there = moved.ToDevice();
  REQUIRE(there.ok());
  if (there->has_value()) REQUIRE(queue.AwaitLane(**lane, **there).ok());
  std::vector<float> back(100);
  REQUIRE(queue.Download(**buffer, {0}, {reinterpret_cast<std::byte*>(back.data()), 400}).ok());
  REQUIRE(queue.Wait(queue.Record()).ok());
  CHECK(back == values);
}

TEST_CASE("a mirror has what the device had at the fence, and gives it back") {
  HostQueue host("host", MiB(1));
  CheckRoundTrip(host);
  SkeletonQueue skeleton(MiB(1));
  CheckRoundTrip(skeleton);
}

TEST_CASE("memory that the host reaches needs no lane, other memory does") {
  HostQueue host("host", MiB(1));
  auto reached = host.Allocate({8});
  auto mirror = PinnedMirror::Create(host, nullptr, {reached->get(), 4, 1});
  REQUIRE(mirror.ok());
  CHECK(mirror->bytes().data() == (*reached)->host_address() + 4);
  SkeletonQueue skeleton(MiB(1));
  auto buffer = skeleton.Allocate({8});
  CHECK(absl::IsInvalidArgument(PinnedMirror::Create(skeleton, nullptr, {buffer->get(), 0, 2}).status()));
}

}  // namespace
}  // namespace medley
