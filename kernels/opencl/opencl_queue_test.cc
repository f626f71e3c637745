#include "kernels/opencl/opencl_queue.h"

#include <catch2/catch.hpp>
#include <thread>

#include "kernels/opencl/opencl_launcher.h"
#include "tests/skipped.h"

namespace medley {
namespace {

// A queue of the first device, or null where there is none: then the test counts as skipped.
std::unique_ptr<OpenClQueue> OpenQueue(Bytes limit = MiB(64)) {
  const auto opencl = LoadOpenCl();
  if (opencl.ok()) {
    const std::vector<OpenClDevice> devices = ListOpenClDevices(**opencl);
    if (!devices.empty()) return OpenClQueue::Create(**opencl, devices[0], limit).value();
  }
  Skipped("queues of an OpenCL device", "there is none here");
  return nullptr;
}

std::vector<std::byte> ReadAll(OpenClQueue& queue, Buffer& buffer) {
  std::vector<std::byte> bytes(buffer.size().value, std::byte{0x77});
  REQUIRE(queue.Download(buffer, {0}, absl::MakeSpan(bytes)).ok());
  REQUIRE(queue.Wait(queue.Record()).ok());
  return bytes;
}

TEST_CASE("memory is zeroed whatever its size, even where it was used before") {
  const auto queue = OpenQueue();
  if (queue == nullptr) return;
  for (const int64_t size : {int64_t{0}, int64_t{1}, int64_t{15}, int64_t{4099}, int64_t{3} << 20}) {
    CAPTURE(size);
    {
      auto dirty = queue->Allocate({size});
      REQUIRE(dirty.ok());
      REQUIRE(queue->Upload(std::vector<std::byte>(size, std::byte{0xff}), **dirty, {0}).ok());
    }
    auto buffer = queue->Allocate({size});
    REQUIRE(buffer.ok());
    CHECK((*buffer)->size() == Bytes{size});
    CHECK((*buffer)->host_address() == nullptr);
    CHECK(ReadAll(*queue, **buffer) == std::vector<std::byte>(size));
  }
}

TEST_CASE("what is uploaded may be changed at once, however long it is") {
  const auto queue = OpenQueue();
  if (queue == nullptr) return;
  const int64_t size = GENERATE(1, 1000, 6 << 20);
  CAPTURE(size);
  auto buffer = queue->Allocate({size});
  REQUIRE(buffer.ok());
  std::vector<std::byte> source(size);
  for (int round = 0; round < 8; ++round) {
    for (int64_t i = 0; i < size; ++i) source[i] = static_cast<std::byte>(i * 7 + round);
    REQUIRE(queue->Upload(source, **buffer, {0}).ok());
    const std::vector<std::byte> sent = source;
    std::fill(source.begin(), source.end(), std::byte{0});
    if (round == 7) CHECK(ReadAll(*queue, **buffer) == sent);
  }
}

TEST_CASE("the limit counts live buffers") {
  const auto queue = OpenQueue(KiB(10));
  if (queue == nullptr) return;
  auto first = queue->Allocate(KiB(6));
  REQUIRE(first.ok());
  const auto refused = queue->Allocate({KiB(4).value + 1});
  REQUIRE(absl::IsResourceExhausted(refused.status()));
  CHECK_THAT(std::string(refused.status().message()),
             Catch::Contains("10.0 KiB") && Catch::Contains("6.0 KiB") && Catch::Contains("4097 B"));
  first->reset();
  CHECK(queue->allocated() == Bytes{0});
  CHECK(queue->peak_allocated() == KiB(6));
  CHECK(absl::IsInvalidArgument(queue->Allocate({-1}).status()));
  CHECK(absl::IsResourceExhausted(queue->Allocate({INT64_MAX}).status()));
  CHECK(queue->Wait(queue->Record()).ok());
}

TEST_CASE("the first error stays, for every later submission and wait") {
  const auto queue = OpenQueue();
  if (queue == nullptr) return;
  auto buffer = queue->Allocate({4});
  REQUIRE(buffer.ok());
  const Fence before = queue->Record();
  CHECK(queue->Poison(absl::InternalError("first")).message() == "first");
  CHECK(queue->Poison(absl::AbortedError("second")).message() == "first");
  const std::vector<std::byte> one(1);
  CHECK(queue->Upload(one, **buffer, {0}) == absl::InternalError("first"));
  CHECK(queue->Wait(before) == absl::InternalError("first"));
  CHECK(queue->Wait(queue->Record()) == absl::InternalError("first"));
  CHECK(queue->Allocate({4}).status() == absl::InternalError("first"));
}

TEST_CASE("a kernel that does not exist poisons the queue with the driver's words") {
  const auto queue = OpenQueue();
  if (queue == nullptr) return;
  auto launcher = OpenClLauncher::Create(*queue, ProgramCache(""));
  REQUIRE(launcher.ok());
  const absl::Status refused = (*launcher)->Launch("no_such_kernel", {}, {});
  CHECK(absl::IsInternal(refused));
  CHECK_THAT(std::string(refused.message()),
             Catch::Contains("no_such_kernel") && Catch::Contains("CL_INVALID_KERNEL_NAME"));
  CHECK(queue->Wait(queue->Record()) == refused);
}

TEST_CASE("scratch grows, is one for each index, and is counted by the queue") {
  const auto queue = OpenQueue();
  if (queue == nullptr) return;
  auto launcher = OpenClLauncher::Create(*queue, ProgramCache(""));
  REQUIRE(launcher.ok());
  CHECK((*launcher)->scratch_size() == Bytes{0});
  const auto logits = (*launcher)->Scratch(KernelLauncher::kLogits, {100});
  const auto partials = (*launcher)->Scratch(KernelLauncher::kPartials, {50});
  REQUIRE((logits.ok() && partials.ok()));
  CHECK(logits->buffer != partials->buffer);
  CHECK((*launcher)->Scratch(KernelLauncher::kLogits, {60})->buffer == logits->buffer);
  CHECK((*launcher)->scratch_size() == Bytes{150});
  CHECK((*launcher)->Scratch(KernelLauncher::kLogits, {200})->elements == 50);
  CHECK((*launcher)->scratch_size() == Bytes{250});
  CHECK(queue->allocated() == Bytes{250});
}

TEST_CASE("any thread may wait while another submits") {
  const auto queue = OpenQueue();
  if (queue == nullptr) return;
  auto buffer = queue->Allocate({1 << 16});
  REQUIRE(buffer.ok());
  std::atomic<uint64_t> recorded = 0;
  std::atomic<bool> done = false;
  std::atomic<int> failures = 0;
  std::thread waiter([&] {
    while (!done) failures += !queue->Wait({recorded.load()}).ok();
  });
  const std::vector<std::byte> bytes(1 << 16, std::byte{3});
  for (int i = 0; i < 200; ++i) {
    if (!queue->Upload(bytes, **buffer, {0}).ok()) ++failures;
    recorded = queue->Record().value;
  }
  done = true;
  waiter.join();
  CHECK(failures == 0);
  CHECK(ReadAll(*queue, **buffer) == bytes);
}

}  // namespace
}  // namespace medley
