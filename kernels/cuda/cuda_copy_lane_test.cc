#include "kernels/cuda/cuda_copy_lane.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "kernels/cuda/simulated_driver.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/copy_lane_program.h"

namespace medley {
namespace {

std::unique_ptr<CudaQueue> OpenQueue(uint64_t seed) {
  auto device = CudaDevice::Open(simulated::Start(seed), 0);
  REQUIRE(device.ok());
  auto queue = CudaQueue::Create(*std::move(device), MiB(64));
  REQUIRE(queue.ok());
  return *std::move(queue);
}

LaneProgram Program(CudaQueue& queue, uint64_t seed) {
  const auto add = [&queue](const Slice& x, const Slice& y) -> absl::Status {
    ASSIGN_OR_RETURN(const CUdeviceptr from, queue.Address(x));
    ASSIGN_OR_RETURN(const CUdeviceptr to, queue.Address(y));
    simulated::Launch(queue.compute_stream(), [from, to, count = y.elements] {
      const auto* in = reinterpret_cast<const float*>(from);
      auto* out = reinterpret_cast<float*>(to);
      for (int64_t i = 0; i < count; ++i) out[i] = in[i] + out[i];
    });
    return absl::OkStatus();
  };
  return {.queue = queue, .add = add, .seed = seed};
}

TEST_CASE("in whatever order the streams run, lanes and queue keep the order that fences ask for",
          "[property]") {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    auto queue = OpenQueue(seed);
    const absl::Status status = RunOrderedByFences(Program(*queue, seed));
    CAPTURE(status);
    REQUIRE(status.ok());
  }
}

TEST_CASE("lanes have threads of their own") {
  auto queue = OpenQueue(7);
  const absl::Status status = RunAllAtOnce(Program(*queue, 7));
  CAPTURE(status);
  CHECK(status.ok());
}

TEST_CASE("a lane's copies run beside the queue's work, and it is waited for alone") {
  auto queue = OpenQueue(3);
  auto buffer = *queue->Allocate({8});
  REQUIRE(queue->Wait(queue->Record()).ok());
  bool computed = false;
  auto lane = *queue->OpenCopyLane();
  auto memory = *lane->AllocatePinned({8});
  std::memset(memory->bytes().data(), 1, 8);
  REQUIRE(lane->Download(*buffer, {0}, memory->bytes()).ok());
  const Fence copied = lane->Record();
  simulated::Launch(queue->compute_stream(), [&] { computed = true; });
  REQUIRE(lane->AwaitQueue(queue->Record()).ok());
  REQUIRE(lane->Wait(copied).ok());
  CHECK(memory->bytes()[0] == std::byte{0});
  REQUIRE(lane->Wait(lane->Record()).ok());
  CHECK(computed);
}

TEST_CASE("a failing driver poisons the lane with its words, an absurd request does not") {
  auto queue = OpenQueue(1);
  auto lane = *queue->OpenCopyLane();
  auto buffer = *queue->Allocate({8});
  auto memory = *lane->AllocatePinned({16});
  CHECK(absl::IsOutOfRange(lane->Upload(memory->bytes(), *buffer, {0})));
  CHECK(absl::IsInvalidArgument(lane->AllocatePinned({-1}).status()));
  CHECK(lane->Wait(lane->Record()).ok());
  simulated::FailWith(CUDA_ERROR_ILLEGAL_ADDRESS);
  const absl::Status failed = lane->Upload(memory->bytes().first(8), *buffer, {0});
  CHECK_THAT(std::string(failed.message()), Catch::Contains("copy lane") && Catch::Contains("asked to fail"));
  simulated::FailWith(CUDA_SUCCESS);
  CHECK(lane->Wait(lane->Record()) == failed);
  CHECK(lane->Download(*buffer, {0}, memory->bytes().first(8)) == failed);
  CHECK(queue->AwaitLane(*lane, {1}) == failed);
  CHECK(queue->Wait(queue->Record()).ok());
}

TEST_CASE("buffers tell a network their address on the device") {
  auto queue = OpenQueue(1);
  auto buffer = *queue->Allocate({8});
  CHECK(buffer->device_address().kind == AddressKind::kCuda);
  CHECK(buffer->device_address().address != nullptr);
}

TEST_CASE("fences that nobody waits for do not pile up") {
  auto queue = OpenQueue(5);
  auto lane = *queue->OpenCopyLane();
  for (int i = 0; i < 2000; ++i) lane->Record();
  CHECK(lane->Wait({1}).ok());
  CHECK(lane->Wait({0}).ok());
}

}  // namespace
}  // namespace medley
