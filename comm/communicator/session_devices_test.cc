#include "comm/communicator/session_devices.h"

#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "absl/strings/str_cat.h"

namespace medley {
namespace {

// What the system would show of RDMA devices and their hardware's interfaces.
class Devices {
 public:
  Devices() {
    std::string made = (std::filesystem::temp_directory_path() / "devices.XXXXXX").string();
    REQUIRE(mkdtemp(made.data()) != nullptr);
    path_ = made;
    for (const char* one : {"mlx5_0/device/net/eth1", "mlx5_1/device/net/ib0", "mlx5_1/device/net/ib1",
                            "mlx5_2/device/net/ib2", "bare/device"}) {
      std::filesystem::create_directories(path_ / one);
    }
  }
  ~Devices() { std::filesystem::remove_all(path_); }

  absl::StatusOr<std::string> For(const std::string& names, const std::string& allowed = "") const {
    return SessionDevices(names, allowed, {{"lo", {}}, {"eth0", {}}, {"eth1", {}}, {"ib0", {}}},
                          path_.string());
  }

 private:
  std::filesystem::path path_;
};

TEST_CASE("an RDMA device stands for the interfaces of its hardware, an interface for itself") {
  const Devices devices;
  CHECK(*devices.For("") == "");
  CHECK(*devices.For("eth0") == "eth0");
  CHECK(*devices.For("nowhere7") == "nowhere7");  // for who listens to refuse
  CHECK(*devices.For("mlx5_0:1") == "eth1");
  CHECK(*devices.For("eth1,mlx5_0:1") == "eth1");
  CHECK(*devices.For("eth0,bare:1") == "eth0");
  CHECK(*devices.For("eth0,mlx5_1:1,mlx5_0:1") == "eth0,eth1,ib0");  // ib1 has no address
}

TEST_CASE("where an RDMA device's hardware has no address, the session goes over what else is allowed") {
  const Devices devices;
  for (const char* bare : {"bare:1", "nowhere:1", "mlx5_2:1", "mlx5_2:1,bare:1"}) {
    CAPTURE(bare);
    CHECK(*devices.For(bare) == "");  // all
    CHECK(*devices.For(bare, absl::StrCat("eth0,", bare)) == "eth0");
    CHECK(*devices.For(bare, "bare:1,eth0,ib2,eth1") == "eth0,eth1");
    CHECK(*devices.For(bare, "mlx5_2,mlx5_1:1") == "ib0");
    const absl::Status refused = devices.For(bare, bare).status();
    CHECK(absl::IsInvalidArgument(refused));
    CHECK_THAT(std::string(refused.message()),
               Catch::StartsWith(absl::StrCat("network_devices is \"", bare, "\"")));
  }
}

}  // namespace
}  // namespace medley
