#include "comm/topology/interfaces.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace medley {
namespace {

TEST_CASE("networks are read from /sys, whatever is missing in it") {
  const std::filesystem::path sys = std::filesystem::path(std::getenv("TEST_TMPDIR")) / "sys";
  const auto write = [&](const std::string& path, const std::string& text) {
    std::filesystem::create_directories((sys / path).parent_path());
    std::ofstream(sys / path) << text << "\n";
  };
  write("class/net/eth0/flags", "0x1003");
  write("class/net/eth0/carrier", "1");
  write("class/net/eth0/speed", "400000");
  write("class/net/eth0/device/vendor", "0x15b3");
  write("class/net/eth1/flags", "0x1003");
  write("class/net/eth1/carrier", "0");
  write("class/net/eth1/speed", "-1");
  write("class/net/bond0/flags", "0x1003");
  write("class/net/bond0/lower_eth0/flags", "0x1003");
  write("class/net/lo/flags", "0x9");
  write("class/net/empty/nothing", "");
  write("class/net/bonding_masters", "bond0");
  write("class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)");
  write("class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE");
  write("class/infiniband/mlx5_0/ports/2/state", "1: DOWN");
  const Networks found = ReadNetworks(sys, {{"eth0"}, {"eth1"}, {"lo", true}, {"unseen"}});
  REQUIRE(found.interfaces.size() == 6);
  const Interface &bond = found.interfaces[0], &empty = found.interfaces[1], &eth0 = found.interfaces[2],
                  &eth1 = found.interfaces[3], &lo = found.interfaces[4], &unseen = found.interfaces[5];
  CHECK((unseen.is_up && !unseen.is_loopback && !unseen.is_virtual));
  CHECK((eth0.is_up && !eth0.is_virtual && eth0.bytes_per_second == 50e9));
  CHECK((!eth1.is_up && eth1.is_virtual && eth1.bytes_per_second == 0));
  CHECK((!bond.is_up && bond.lower == std::vector<std::string>{"eth0"}));
  CHECK((lo.is_up && lo.is_loopback && !lo.is_virtual));
  CHECK(!empty.is_up);
  REQUIRE(found.fabric_ports.size() == 2);
  CHECK((found.fabric_ports[0].is_up && found.fabric_ports[0].bytes_per_second == 50e9));
  CHECK((!found.fabric_ports[1].is_up && found.fabric_ports[1].port == 2));
  CHECK(ReadNetworks("/nowhere", {}).interfaces.empty());
}

}  // namespace
}  // namespace medley
