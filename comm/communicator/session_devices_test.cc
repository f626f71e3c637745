#include "comm/communicator/session_devices.h"

#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>

namespace medley {
namespace {

TEST_CASE("an RDMA device stands for the interfaces of its hardware, an interface for itself") {
  std::string made = (std::filesystem::temp_directory_path() / "devices.XXXXXX").string();
  REQUIRE(mkdtemp(made.data()) != nullptr);
  const std::filesystem::path devices = made;
  for (const char* one :
       {"mlx5_0/device/net/eth1", "mlx5_1/device/net/ib0", "mlx5_1/device/net/ib1", "bare/device"}) {
    std::filesystem::create_directories(devices / one);
  }
  const auto of = [&](const std::string& names) { return SessionDevices(names, made); };
  CHECK(*of("") == "");
  CHECK(*of("eth0") == "eth0");
  CHECK(*of("mlx5_0:1") == "eth1");
  CHECK(*of("eth1,mlx5_0:1") == "eth1");
  CHECK(*of("eth0,mlx5_1:1,mlx5_0:1") == "eth0,eth1,ib0,ib1");
  CHECK(*of("eth0,bare:1") == "eth0");
  for (const char* wrong : {"bare:1", "nowhere:1"}) {
    CHECK(absl::IsInvalidArgument(of(wrong).status()));
    CHECK_THAT(std::string(of(wrong).status().message()), Catch::Contains(wrong));
  }
  std::filesystem::remove_all(devices);
}

}  // namespace
}  // namespace medley
