#include "kernels/emulated/emulated_queue.h"

#include <array>
#include <catch2/catch.hpp>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "runtime/device/copy_lane.h"

namespace medley {
namespace {

int64_t NowNanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

int64_t At(Fence fence) { return static_cast<int64_t>(fence.value); }

EmulatedQueue::Options Options() {
  return {.name = "emulated", .limit = GiB(80), .link_bytes_per_second = 1e9, .copy_overhead_seconds = 1e-3};
}

TEST_CASE("work submitted to a busy queue begins when what came before is done") {
  EmulatedQueue queue(Options());
  const int64_t before = NowNanoseconds();
  queue.Take(1000);  // never waited for
  const int64_t first = At(queue.Record());
  CHECK(first >= before + 1'000'000'000'000);
  CHECK(first <= NowNanoseconds() + 1'000'000'000'000);
  queue.Take(0.25);
  queue.Take(0);
  queue.Take(1e-6);
  CHECK(At(queue.Record()) - first == 250'001'000);
}

TEST_CASE("work submitted to an idle queue begins now, however long it was idle") {
  EmulatedQueue queue(Options());
  queue.Take(1e-6);
  REQUIRE(queue.Wait(queue.Record()).ok());
  const int64_t before = NowNanoseconds();
  queue.Take(100);
  CHECK(At(queue.Record()) - before >= 100'000'000'000);
}

TEST_CASE("Wait returns not before the fence is reached, from any thread") {
  EmulatedQueue queue(Options());
  queue.Take(2e-3);
  const Fence fence = queue.Record();
  std::vector<std::thread> threads;
  std::array<int64_t, 3> woken{};
  for (int64_t& at : woken) {
    threads.emplace_back([&] {
      if (queue.Wait(fence).ok()) at = NowNanoseconds();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int64_t at : woken) {
    CHECK(at >= At(fence));
    CHECK(at <= At(fence) + 5'000'000'000);
  }
  CHECK(queue.Wait({0}).ok());  // long past
}

TEST_CASE("copies take their link's time, move nothing and give zeros") {
  EmulatedQueue queue(Options());
  auto buffer = queue.Allocate(MiB(4));
  REQUIRE(buffer.ok());
  CHECK((*buffer)->host_address() == nullptr);
  queue.Take(1000);
  const int64_t start = At(queue.Record());
  std::vector<std::byte> bytes(1 << 20, std::byte{7});
  REQUIRE(queue.Upload(bytes, **buffer, MiB(3)).ok());
  const int64_t uploaded = At(queue.Record());
  CHECK(uploaded - start == 1'000'000 + (1 << 20));
  REQUIRE(queue.Download(**buffer, MiB(3), absl::MakeSpan(bytes)).ok());
  CHECK(At(queue.Record()) - uploaded == 1'000'000 + (1 << 20));
  CHECK(bytes == std::vector<std::byte>(1 << 20));
}

TEST_CASE("a timer reads the times that work takes, without waiting for it") {
  EmulatedQueue queue(Options());
  auto timer = queue.OpenTimer(2);
  REQUIRE(timer.ok());
  queue.Take(1000);
  REQUIRE((*timer)->Set(0).ok());
  queue.Take(0.25);
  REQUIRE((*timer)->Set(1).ok());
  CHECK(*(*timer)->Seconds(0, 1) == Approx(0.25).epsilon(1e-9));

  EmulatedQueue idle(Options());
  auto from_now = idle.OpenTimer(2);
  REQUIRE((*from_now)->Set(0).ok());  // not since the clock began
  idle.Take(1000);
  REQUIRE((*from_now)->Set(1).ok());
  CHECK(*(*from_now)->Seconds(0, 1) >= 1000);
  CHECK(*(*from_now)->Seconds(0, 1) < 1060);
}

TEST_CASE("a copy past the end takes no time and changes nothing") {
  EmulatedQueue queue(Options());
  auto buffer = queue.Allocate({4});
  REQUIRE(buffer.ok());
  std::array<std::byte, 5> five{std::byte{1}, std::byte{1}, std::byte{1}, std::byte{1}, std::byte{1}};
  const std::array<std::byte, 5> as_before = five;
  CHECK(absl::IsOutOfRange(queue.Upload(five, **buffer, {0})));
  CHECK(absl::IsOutOfRange(queue.Upload(absl::MakeSpan(five).first(1), **buffer, {-1})));
  CHECK(absl::IsOutOfRange(queue.Download(**buffer, {0}, absl::MakeSpan(five))));
  CHECK(absl::IsOutOfRange(queue.Download(**buffer, {4}, absl::MakeSpan(five).first(1))));
  CHECK(five == as_before);
  CHECK(queue.Record().value == 0);
}

TEST_CASE("a lane's copies take their time beside the queue's work, or after it where a fence says so") {
  EmulatedQueue queue(Options());
  auto buffer = queue.Allocate(MiB(1));
  REQUIRE(buffer.ok());
  auto lane = queue.OpenCopyLane();
  REQUIRE(lane.ok());
  auto memory = (*lane)->AllocatePinned(MiB(1));
  REQUIRE(memory.ok());
  const int64_t before = NowNanoseconds();
  queue.Take(2);  // longer than the copy needs to be submitted
  const Fence computed = queue.Record();
  REQUIRE((*lane)->Upload((*memory)->bytes(), **buffer, {0}).ok());
  const Fence beside = (*lane)->Record();
  CHECK(At(beside) >= before + 1'000'000 + (1 << 20));
  CHECK(At(beside) < At(computed));
  REQUIRE((*lane)->AwaitQueue(computed).ok());
  (*memory)->bytes()[0] = std::byte{7};
  REQUIRE((*lane)->Download(**buffer, {0}, (*memory)->bytes()).ok());
  const Fence after = (*lane)->Record();
  CHECK(At(after) - At(computed) == 1'000'000 + (1 << 20));
  CHECK((*memory)->bytes()[0] == std::byte{0});
  REQUIRE(queue.AwaitLane(**lane, after).ok());
  queue.Take(1e-3);
  CHECK(At(queue.Record()) - At(after) == 1'000'000);
  CHECK(absl::IsOutOfRange((*lane)->Upload((*memory)->bytes(), **buffer, {1})));
  REQUIRE((*lane)->Wait(after).ok());
  CHECK(NowNanoseconds() >= At(after));
}

TEST_CASE("a device may have more memory than this machine, and keeps to its limit") {
  EmulatedQueue queue({.name = "emulated large", .limit = GiB(1 << 20)});
  auto most = queue.Allocate({GiB(1 << 20).value - 1});
  REQUIRE(most.ok());
  const absl::Status refused = queue.Allocate({2}).status();
  CHECK(absl::IsResourceExhausted(refused));
  const std::string message(refused.message());
  CHECK_THAT(message,
             Catch::Contains("emulated large") && Catch::Contains("2 B") && Catch::Contains("limit of"));
  CHECK(queue.Allocate({1}).ok());
  CHECK(queue.peak_allocated() == GiB(1 << 20));
  most->reset();
  CHECK(queue.allocated() == Bytes{0});
  CHECK(queue.peak_allocated() == GiB(1 << 20));
  CHECK(absl::IsInvalidArgument(queue.Allocate({-1}).status()));
  CHECK(absl::IsResourceExhausted(queue.Allocate({INT64_MAX}).status()));
}

}  // namespace
}  // namespace medley
