#include "agent/discovery/discovery.h"

#include <catch2/catch.hpp>

#include "kernels/backends.h"
#include "kernels/emulated/test_profile.h"

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

TEST_CASE("nodes on which a little else runs offer the same memory, and not more than is available") {
  CHECK(CoarselyRounded(GiB(1000)) == GiB(1008 - 16));
  CHECK(CoarselyRounded(GiB(1007)) == GiB(1008 - 16));
  CHECK(CoarselyRounded(Bytes{GiB(503).value + 12345}) == GiB(496));
  CHECK(CoarselyRounded(GiB(64)) == GiB(64));
  CHECK(CoarselyRounded(Bytes{31}) == Bytes{31});
  CHECK(CoarselyRounded(Bytes{0}) == Bytes{0});
  CHECK(OfferedHostMemory() > Bytes{0});
}

TEST_CASE(
    "what a backend finds by itself is offered beside the processor, with the kind and memory that it says") {
  std::vector<Backend> backends = AllBackends();
  for (Backend& backend : backends) backend.find = nullptr;
  const auto open = [](const DeviceDescription&) { return absl::UnavailableError("not opened here"); };
  backends.push_back({.name = "fast",
                      .open = open,
                      .objection = [](const DeviceDescription&) { return absl::OkStatus(); },
                      .find =
                          [] {
                            return std::vector<DeviceDescription>{
                                {.name = "fast0", .backend = "fast", .variant = "0", .memory_limit = GiB(9)}};
                          },
                      .nature =
                          [](const DeviceDescription&) {
                            return DeviceNature{"Fast 9000", {.bf16 = true}, GiB(3), false, GiB(2)};
                          }});
  std::vector<v1::Device> devices = DiscoverDevices(backends);
  REQUIRE(devices.size() == 2);
  devices.push_back(devices[1]);
  devices[2].set_name("configured");
  devices[2].clear_memory_bytes();
  const auto complete = CompleteDevices(devices, backends);
  REQUIRE(complete.status().ToString() == "OK");
  CHECK((*complete)[0].backend() == "cpu");
  CHECK((*complete)[1].name() == "fast0");
  CHECK((*complete)[1].kind() == "Fast 9000");
  CHECK((*complete)[1].computes_bf16());
  CHECK((*complete)[1].memory_bytes() == uint64_t{9} << 30);
  CHECK((*complete)[2].memory_bytes() == uint64_t{3} << 30);
  CHECK((*complete)[0].largest_buffer_bytes() == 0);
  CHECK((*complete)[1].largest_buffer_bytes() == uint64_t{2} << 30);
  CHECK((*complete)[2].largest_buffer_bytes() == uint64_t{2} << 30);
  // Where both had the processor's cores they would be predicted to slow each other down.
  CHECK((*complete)[0].cores_size() >= 1);
  CHECK((*complete)[1].cores().empty());
  CHECK((*complete)[2].cores().empty());
  backends.back().nature = [](const DeviceDescription&) {
    return DeviceNature{.kind = "Fast 9000", .memory = GiB(3), .total_memory = GiB(8)};
  };
  const auto too_much = CompleteDevices(devices, backends);
  CHECK(too_much.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(too_much.status().message()),
             Catch::Contains(
                 "devices[1] (fast0).memory_bytes: 9.0 GiB is more than the 8.0 GiB that Fast 9000 has"));
  devices[1].set_memory_bytes(uint64_t{8} << 30);
  CHECK(CompleteDevices(devices, backends).status().ToString() == "OK");
  devices[2].add_cores(0);
  const auto refused = CompleteDevices(devices, backends);
  CHECK(refused.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(refused.status().message()),
             Catch::Contains("devices[2] (configured).cores: must not be given, for Fast 9000"));
  backends.back().nature = [](const DeviceDescription&) {
    return DeviceNature{"Fast 9000", {}, GiB(3), /*on_cores=*/true, GiB(3)};
  };
  devices[2].set_largest_buffer_bytes(1);
  const auto on_cores = CompleteDevices(devices, backends);
  REQUIRE(on_cores.status().ToString() == "OK");
  CHECK((*on_cores)[1].cores_size() == (*complete)[0].cores_size());
  CHECK((*on_cores)[2].cores_size() == 1);
  // Of a device with no more memory than that it is no limit.
  CHECK((*on_cores)[1].largest_buffer_bytes() == uint64_t{3} << 30);
  CHECK((*on_cores)[2].largest_buffer_bytes() == 0);
}

TEST_CASE("devices of equal make are of one kind, others are not") {
  const auto devices =
      CompleteDevices({Cpu("a", "sse41", {0}), Cpu("b", "sse41", {0}), Cpu("c", "", {0})}, AllBackends());
  REQUIRE(devices.ok());
  CHECK((*devices)[0].kind() == (*devices)[1].kind());
  if ((*devices)[2].variant() != "sse41") CHECK((*devices)[0].kind() != (*devices)[2].kind());
}

v1::Device EmulatedDevice(const TestProfile& profile, const std::string& name) {
  v1::Device device;
  device.set_name(name);
  device.set_backend("emulated");
  device.set_profile(profile.path());
  return device;
}

TEST_CASE("an emulated device is what its profile says, and a changed profile is another kind") {
  const TestProfile file, same, other("matmul_bf16_flops_per_second: 1e13\n");
  v1::Device small = EmulatedDevice(file, "small");
  small.set_memory_bytes(1 << 30);
  small.set_price_per_hour(2.5);
  const auto devices = CompleteDevices(
      {EmulatedDevice(file, "a"), EmulatedDevice(same, "b"), EmulatedDevice(other, "c"), small},
      AllBackends());
  REQUIRE(devices.status().ToString() == "OK");
  const v1::Device &a = (*devices)[0], &c = (*devices)[2];
  CHECK(a.emulated());
  CHECK(a.variant() == "Test-1");
  CHECK_FALSE(a.has_price_per_hour());
  CHECK((*devices)[3].price_per_hour() == 2.5);
  CHECK(a.memory_bytes() == uint64_t{64} << 30);
  CHECK(a.cores().empty());
  CHECK_FALSE(a.computes_bf16());
  CHECK_THAT(a.kind(), Catch::StartsWith("emulated Test-1 "));
  CHECK(a.kind() == (*devices)[1].kind());
  CHECK(a.kind() != c.kind());
  CHECK(c.computes_bf16());
  CHECK((*devices)[3].memory_bytes() == 1 << 30);
}

TEST_CASE("a device says that it computes bf16 exactly if it does when it is open") {
  std::vector<v1::Device> devices = {Cpu("a", "sse41", {0}), Cpu("b", "", {0})};
  devices[1].set_backend("reference");
  const auto complete = CompleteDevices(devices, AllBackends());
  REQUIRE(complete.status().ToString() == "OK");
  CHECK_FALSE((*complete)[0].computes_bf16());
  CHECK((*complete)[1].computes_bf16());
  for (const Backend& backend : AllBackends()) {
    if (backend.name != "reference") continue;
    const absl::StatusOr<Device> open =
        backend.open({.name = "b", .backend = "reference", .cores = {0}, .memory_limit = MiB(1)});
    REQUIRE(open.status().ToString() == "OK");
    CHECK(open->computes.bf16);
  }
}

TEST_CASE("a device cannot say of itself that it is emulated") {
  v1::Device device = Cpu("a", "sse41", {0});
  device.set_emulated(true);
  const auto devices = CompleteDevices({device}, AllBackends());
  REQUIRE(devices.ok());
  CHECK_FALSE((*devices)[0].emulated());
}

TEST_CASE("a configuration that cannot be is refused with the device and the cause") {
  struct Case {
    std::vector<v1::Device> devices;
    std::string mentions;
  };
  v1::Device unknown = Cpu("x", "", {0});
  unknown.set_backend("abacus");
  static const TestProfile file, broken("speed: 1\n");  // the cases are made once and run one by one
  v1::Device profiled = Cpu("p", "", {0}), no_profile = EmulatedDevice(file, "n"),
             no_memory = Cpu("m", "", {0});
  profiled.set_profile("x.yaml");
  no_profile.clear_profile();
  no_memory.clear_memory_bytes();
  v1::Device huge = Cpu("h", "", {0});
  huge.set_memory_bytes(uint64_t{1} << 60);
  v1::Device large = EmulatedDevice(file, "l");
  large.set_memory_bytes(uint64_t{65} << 30);
  const auto c = GENERATE_COPY(values<Case>({
      {{Cpu("a", "", {0}), Cpu("a", "", {0})}, "given twice"},
      {{unknown}, "abacus"},
      {{Cpu("a", "avx1024", {0})}, "avx1024"},
      {{Cpu("a", "", {99999})}, "99999"},
      {{profiled}, "devices[0] (p).profile: is for devices of the backend emulated"},
      {{no_profile}, "devices[0] (n).profile: is empty"},
      {{no_memory}, "devices[0] (m).memory_bytes: is not given"},
      {{huge}, "devices[0] (h).memory_bytes: 1048576.0 TiB is more than the "},
      {{EmulatedDevice(broken, "b")}, ":7: speed: unknown key"},
      {{large}, "memory_bytes: 65.0 GiB is more than the profile's 64.0 GiB"},
  }));
  const auto devices = CompleteDevices(c.devices, AllBackends());
  CHECK(devices.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(devices.status().message()), Catch::Contains(c.mentions));
}

TEST_CASE("of a device that is not there it is said that it is not, and not that it has no memory") {
  v1::Device device;
  device.set_name("cuda0");
  device.set_backend("cuda");
  device.set_variant("12345");
  auto devices = CompleteDevices({device}, AllBackends());
  // Its driver may be loaded later: a service manager starts again what ends with this.
  REQUIRE(absl::IsFailedPrecondition(devices.status()));
  CHECK_THAT(std::string(devices.status().message()),
             Catch::StartsWith("devices[0] (cuda0): ") && !Catch::Contains("memory_bytes"));
  // No driver makes these right.
  device.set_variant("0:tf23");
  devices = CompleteDevices({device}, AllBackends());
  CHECK(absl::IsInvalidArgument(devices.status()));
  CHECK_THAT(std::string(devices.status().message()),
             Catch::StartsWith("devices[0] (cuda0): ") && Catch::Contains("tf23"));
}

TEST_CASE("of what a backend objects to, waiting is for what may come") {
  struct Case {
    absl::StatusCode objection, refusal;
  };
  const auto c =
      GENERATE(values<Case>({{absl::StatusCode::kUnavailable, absl::StatusCode::kFailedPrecondition},
                             {absl::StatusCode::kNotFound, absl::StatusCode::kFailedPrecondition},
                             {absl::StatusCode::kInternal, absl::StatusCode::kFailedPrecondition},
                             {absl::StatusCode::kInvalidArgument, absl::StatusCode::kInvalidArgument},
                             {absl::StatusCode::kUnimplemented, absl::StatusCode::kInvalidArgument}}));
  CAPTURE(c.objection);
  const Backend backend = {
      .name = "fast",
      .open = [](const DeviceDescription&) { return absl::UnavailableError("not opened here"); },
      .objection = [&](const DeviceDescription&) { return absl::Status(c.objection, "broken"); },
      .nature = [](const DeviceDescription&) { return DeviceNature{}; }};
  v1::Device device;
  device.set_name("a");
  device.set_backend("fast");
  CHECK(CompleteDevices({device}, {backend}).status() == absl::Status(c.refusal, "devices[0] (a): broken"));
}

}  // namespace
}  // namespace medley
