#include <catch2/catch.hpp>

#include "comm/staging/device_stream_suite.h"
#include "kernels/cuda/cuda_queue.h"
#include "kernels/cuda/simulated_driver.h"
#include "kernels/host/host_queue.h"

namespace medley {
namespace {

TEST_CASE("memory of a GPU, staged, whole or direct, sends and receives whatever order its streams run in") {
  const auto& driver = simulated::Start(7);
  const auto open = [&]() -> std::unique_ptr<DeviceQueue> {
    return CudaQueue::Create(CudaDevice::Open(driver, 0).value(), MiB(256)).value();
  };
  CheckAllPairs({{"host", [] { return std::make_unique<HostQueue>("host", MiB(256)); }, {Handling::kHost}},
                 {"gpu", open, {Handling::kStaged, Handling::kWhole, Handling::kDirect}}});
}

}  // namespace
}  // namespace medley
