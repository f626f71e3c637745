#include "kernels/cuda/cuda_queue.h"

#include <catch2/catch.hpp>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/simulated_driver.h"

namespace medley {
namespace {

std::unique_ptr<CudaQueue> OpenQueue(uint64_t seed, Bytes limit = MiB(64)) {
  auto device = CudaDevice::Open(simulated::Start(seed), 0);
  REQUIRE(device.ok());
  auto queue = CudaQueue::Create(*std::move(device), limit);
  REQUIRE(queue.ok());
  return *std::move(queue);
}

using HostBytes = std::vector<std::byte>;

// y[i] = 3 x[i] + y[i] + 1 on the device: shows the order of ops, and what they read.
void LaunchMix(CudaQueue& queue, const Slice& x, const Slice& y) {
  const auto from = queue.Address(x), to = queue.Address(y);
  REQUIRE(from.ok());
  REQUIRE(to.ok());
  simulated::Launch(queue.compute_stream(), [from = *from, to = *to, count = y.elements] {
    const auto* in = reinterpret_cast<const uint8_t*>(from);
    auto* out = reinterpret_cast<uint8_t*>(to);
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<uint8_t>(3 * in[i] + out[i] + 1);
  });
}

void MixOnHost(const HostBytes& x, HostBytes& y) {
  for (size_t i = 0; i < y.size(); ++i) y[i] = std::byte(3 * uint8_t(x[i]) + uint8_t(y[i]) + 1);
}

TEST_CASE("in whatever order the streams run, downloads have what was there when they were submitted",
          "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{300}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  auto queue = OpenQueue(seed);
  constexpr size_t kBuffers = 3, kBytes = 32;
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<HostBytes> model(kBuffers, HostBytes(kBytes));
  for (size_t i = 0; i < kBuffers; ++i) buffers.push_back(*queue->Allocate({kBytes}));

  struct Pending {
    HostBytes arrived = HostBytes(kBytes);
    HostBytes expected;
    uint64_t recorded_fences = 0;  // before it
  };
  std::deque<Pending> downloads;
  std::vector<Fence> fences;
  for (int action = 0; action < 120; ++action) {
    const size_t at = random() % kBuffers, other = (at + 1 + random() % (kBuffers - 1)) % kBuffers;
    switch (random() % 6) {
      case 0: {
        HostBytes values(kBytes);
        for (std::byte& value : values) value = std::byte(random());
        model[at] = values;
        REQUIRE(queue->Upload(values, *buffers[at], {0}).ok());
        break;  // `values` is gone
      }
      case 1:
      case 2:
        LaunchMix(*queue, {buffers[other].get(), 0, kBytes}, {buffers[at].get(), 0, kBytes});
        MixOnHost(model[other], model[at]);
        break;
      case 3:
      case 4:
        downloads.push_back({HostBytes(kBytes), model[at], fences.size()});
        REQUIRE(queue->Download(*buffers[at], {0}, absl::MakeSpan(downloads.back().arrived)).ok());
        break;
      default: {
        fences.push_back(queue->Record());
        if (random() % 2 == 0) break;
        const size_t waited = fences.size() - 1 - random() % std::min<size_t>(fences.size(), 4);
        REQUIRE(queue->Wait(fences[waited]).ok());
        for (const Pending& download : downloads) {
          if (download.recorded_fences <= waited) REQUIRE(download.arrived == download.expected);
        }
      }
    }
  }
  REQUIRE(queue->Wait(queue->Record()).ok());
  for (const Pending& download : downloads) REQUIRE(download.arrived == download.expected);
}

TEST_CASE("a fence is reached when the ops before it are done") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{20}));
  CAPTURE(seed);
  auto queue = OpenQueue(seed);
  int done = 0;
  for (int i = 0; i < 5; ++i) simulated::Launch(queue->compute_stream(), [&] { ++done; });
  const Fence fence = queue->Record();
  CHECK(done == 0);
  REQUIRE(queue->Wait(fence).ok());
  CHECK(done == 5);
}

TEST_CASE("a buffer is freed when the ops and downloads that use it are done") {
  auto queue = OpenQueue(3);
  auto buffer = *queue->Allocate({8});
  HostBytes arrived(8);
  LaunchMix(*queue, {buffer.get(), 0, 8}, {buffer.get(), 0, 8});
  REQUIRE(queue->Download(*buffer, {0}, absl::MakeSpan(arrived)).ok());
  REQUIRE(simulated::PendingTasks() > 0);
  buffer = nullptr;
  CHECK(simulated::PendingTasks() == 0);
}

TEST_CASE("a transfer larger than the page-locked memory arrives whole") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{3}));
  CAPTURE(seed);
  auto queue = OpenQueue(seed, MiB(256));
  HostBytes values((size_t{70} << 20) + 13), arrived(values.size());
  std::mt19937_64 random(seed);
  for (size_t i = 0; i < values.size(); i += 1000) values[i] = std::byte(random());
  values.back() = std::byte{7};
  auto buffer = *queue->Allocate({static_cast<int64_t>(values.size()) + 5});
  REQUIRE(queue->Upload(values, *buffer, {5}).ok());
  REQUIRE(queue->Download(*buffer, {5}, absl::MakeSpan(arrived)).ok());
  REQUIRE(queue->Wait(queue->Record()).ok());
  CHECK((arrived == values));  // without printing 70 MiB where they differ
}

TEST_CASE("new buffers are zeroed, are counted, and free their memory") {
  auto queue = OpenQueue(1, {1000});
  {
    auto buffer = *queue->Allocate({600});
    HostBytes values(600, std::byte{1});
    REQUIRE(queue->Download(*buffer, {0}, absl::MakeSpan(values)).ok());
    REQUIRE(queue->Wait(queue->Record()).ok());
    CHECK(values == HostBytes(600));
    CHECK(queue->allocated() == Bytes{600});
    const auto second = queue->Allocate({401});
    CHECK(absl::IsResourceExhausted(second.status()));
    CHECK_THAT(std::string(second.status().message()), Catch::Contains("1000") && Catch::Contains("600"));
    CHECK(absl::IsResourceExhausted(queue->AllocateWorkspace({401}).status()));
    CHECK(queue->AllocateWorkspace({400}).ok());
    CHECK(queue->allocated() == Bytes{600});
    CHECK(simulated::LiveAllocations() == 1);
  }
  CHECK(simulated::LiveAllocations() == 0);
  CHECK(queue->allocated() == Bytes{0});
  CHECK(queue->peak_allocated() == Bytes{1000});
  CHECK(absl::IsInvalidArgument(queue->Allocate({-1}).status()));
}

TEST_CASE("a transfer past a buffer's end changes nothing and does not poison the queue") {
  auto queue = OpenQueue(1);
  auto buffer = *queue->Allocate({8});
  HostBytes five(5, std::byte{9}), all(8, std::byte{1});
  CHECK(absl::IsOutOfRange(queue->Upload(five, *buffer, {4})));
  CHECK(absl::IsOutOfRange(queue->Upload(five, *buffer, {-1})));
  CHECK(absl::IsOutOfRange(queue->Download(*buffer, {4}, absl::MakeSpan(five))));
  REQUIRE(queue->Download(*buffer, {0}, absl::MakeSpan(all)).ok());
  REQUIRE(queue->Wait(queue->Record()).ok());
  CHECK(all == HostBytes(8));
}

TEST_CASE("a driver that fails poisons the queue with its words, and a full device does not") {
  auto queue = OpenQueue(1);
  auto buffer = *queue->Allocate({8});
  const Fence before = queue->Record();
  simulated::FailWith(CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(absl::IsResourceExhausted(queue->Allocate({8}).status()));
  simulated::FailWith(CUDA_SUCCESS);
  CHECK(queue->Wait(before).ok());

  simulated::FailWith(CUDA_ERROR_ILLEGAL_ADDRESS);
  HostBytes values(8);
  const absl::Status failed = queue->Upload(values, *buffer, {0});
  CHECK_THAT(std::string(failed.message()), Catch::Contains("it was asked to fail"));
  simulated::FailWith(CUDA_SUCCESS);
  CHECK(queue->Wait(queue->Record()) == failed);
  CHECK(queue->Wait(before) == failed);
  CHECK(queue->Download(*buffer, {0}, absl::MakeSpan(values)) == failed);
  CHECK(queue->Allocate({8}).status() == failed);
}

TEST_CASE("fences that nobody waits for do not pile up, and waiting for one long past returns at once") {
  auto queue = OpenQueue(5);
  auto buffer = *queue->Allocate({8});
  HostBytes arrived(8, std::byte{1});
  REQUIRE(queue->Download(*buffer, {0}, absl::MakeSpan(arrived)).ok());
  const Fence first = queue->Record();
  for (int i = 0; i < 2000; ++i) queue->Record();
  CHECK(queue->Wait(first).ok());
  CHECK(arrived == HostBytes(8));
  CHECK(queue->Wait({0}).ok());
}

}  // namespace
}  // namespace medley
