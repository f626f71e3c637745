#include <catch2/catch.hpp>

#include "comm/staging/device_stream_suite.h"
#include "kernels/host/host_queue.h"
#include "kernels/opencl/opencl_queue.h"

namespace medley {
namespace {

TEST_CASE("memory of an OpenCL device sends to and receives from host and device memory, bit for bit") {
  const auto opencl = LoadOpenCl();
  const std::vector<OpenClDevice> devices =
      opencl.ok() ? ListOpenClDevices(**opencl) : std::vector<OpenClDevice>();
  if (devices.empty()) {
    WARN("no OpenCL device here");
    return;
  }
  const TestEnd device = {"opencl",
                          [&] { return OpenClQueue::Create(**opencl, devices[0], MiB(256)).value(); },
                          {Handling::kStaged, Handling::kWhole}};
  CheckAllPairs(
      {{"host", [] { return std::make_unique<HostQueue>("host", MiB(256)); }, {Handling::kHost}}, device});
}

}  // namespace
}  // namespace medley
