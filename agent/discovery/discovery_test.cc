#include "agent/discovery/discovery.h"

#include <catch2/catch.hpp>

#include "kernels/backends.h"

namespace medley {
namespace {

v1::Device Cpu(const std::string& name, const std::string& variant, std::vector<uint32_t> cores) {
  v1::Device device;
  device.set_name(name);
  device.set_backend("cpu");
  device.set_variant(variant);
  device.set_memory_bytes(1 << 30);
  device.mutable_cores()->Add(cores.begin(), cores.end());
  return device;
}

TEST_CASE("what is discovered can be completed and says what it is") {
  const auto devices = CompleteDevices(DiscoverDevices(), AllBackends());
  INFO(devices.status().ToString());
  REQUIRE(devices.ok());
  REQUIRE(devices->size() == 1);
  CHECK((*devices)[0].cores_size() >= 1);
  CHECK_THAT((*devices)[0].kind(), Catch::StartsWith("cpu-"));
  CHECK(MachineIdentity().size() > 8);
  CHECK(MachineIdentity() == MachineIdentity());
}

TEST_CASE("devices of equal make are of one kind, others are not") {
  const auto devices = CompleteDevices({Cpu("a", "sse41", {0}), Cpu("b", "sse41", {0}), Cpu("c", "", {0})}, AllBackends());
  REQUIRE(devices.ok());
  CHECK((*devices)[0].kind() == (*devices)[1].kind());
  if ((*devices)[2].variant() != "sse41") CHECK((*devices)[0].kind() != (*devices)[2].kind());
}

TEST_CASE("a configuration that cannot be is refused with the device and the cause") {
  struct Case {
    std::vector<v1::Device> devices;
    std::string mentions;
  };
  v1::Device unknown = Cpu("x", "", {0});
  unknown.set_backend("abacus");
  const auto c = GENERATE_COPY(values<Case>({
      {{Cpu("a", "", {0}), Cpu("a", "", {0})}, "given twice"},
      {{unknown}, "abacus"},
      {{Cpu("a", "avx1024", {0})}, "avx1024"},
      {{Cpu("a", "", {99999})}, "99999"},
  }));
  const auto devices = CompleteDevices(c.devices, AllBackends());
  CHECK(devices.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(devices.status().message()), Catch::Contains(c.mentions));
}

}  // namespace
}  // namespace medley
