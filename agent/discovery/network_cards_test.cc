#include "agent/discovery/network_cards.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "runtime/base/files/temporary_directory.h"

namespace medley {
namespace {

namespace fs = std::filesystem;

// What a kernel shows of a machine.
class Machine {
 public:
  Machine() { fs::create_directories(path()); }
  fs::path path() const { return fs::path(directory_.path()) / "sys"; }

  // `hardware`: empty: it is none, as loopback.
  void AddInterface(const std::string& name, const std::string& state, const std::string& hardware) {
    Write(path() / "class/net" / name / "operstate", state);
    AddHardware(path() / "class/net" / name, hardware);
  }
  void AddRdma(const std::string& name, int port, const std::string& state, const std::string& hardware) {
    Write(path() / "class/infiniband" / name / "ports" / std::to_string(port) / "state", state);
    AddHardware(path() / "class/infiniband" / name, hardware);
  }

 private:
  static void Write(const fs::path& file, const std::string& line) {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << line << "\n";
  }
  void AddHardware(const fs::path& of, const std::string& hardware) {
    if (hardware.empty() || fs::exists(of / "device")) return;
    fs::create_directories(path() / "devices" / hardware);
    fs::create_symlink(path() / "devices" / hardware, of / "device");
  }

  TemporaryDirectory directory_;
};

TEST_CASE("a machine with one interface that is up has one card; with several it is not known") {
  Machine machine;
  machine.AddInterface("lo", "unknown", "");
  machine.AddInterface("docker0", "up", "");
  CHECK(FindNetworkCards({}, true, machine.path()) == 0);
  machine.AddInterface("eth0", "up", "0000:00:03.0");
  CHECK(FindNetworkCards({}, true, machine.path()) == 1);
  machine.AddInterface("eth1", "down", "0000:00:04.0");
  CHECK(FindNetworkCards({}, true, machine.path()) == 1);
  machine.AddInterface("eth2", "up", "0000:00:05.0");
  CHECK(FindNetworkCards({}, true, machine.path()) == 0);
  CHECK(FindNetworkCards({"eth2"}, true, machine.path()) == 1);
  CHECK(FindNetworkCards({"eth0", "eth2"}, true, machine.path()) == 0);
  CHECK(FindNetworkCards({"all"}, true, machine.path()) == 0);
}

TEST_CASE("cards for RDMA count, and others only where there are none or TCP is asked for") {
  Machine machine;
  machine.AddInterface("eth0", "up", "0000:00:03.0");
  machine.AddInterface("ib0", "up", "0000:81:00.0");
  CHECK(FindNetworkCards({}, false, machine.path()) == 0);
  machine.AddRdma("mlx5_0", 1, "4: ACTIVE", "0000:81:00.0");
  CHECK(FindNetworkCards({}, false, machine.path()) == 1);
  CHECK(FindNetworkCards({}, true, machine.path()) == 0);
  machine.AddRdma("mlx5_1", 1, "1: DOWN", "0000:82:00.0");
  CHECK(FindNetworkCards({}, false, machine.path()) == 1);
  machine.AddRdma("mlx5_0", 2, "4: ACTIVE", "0000:81:00.0");
  CHECK(FindNetworkCards({}, false, machine.path()) == 0);
}

TEST_CASE("where the kernel shows nothing no card is known") {
  CHECK(FindNetworkCards({}, false, Machine().path()) == 0);
}

}  // namespace
}  // namespace medley
