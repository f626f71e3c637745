#include "kernels/opencl/opencl_device.h"

#include <catch2/catch.hpp>

#include "tests/skipped.h"

namespace medley {
namespace {

OpenClDevice Named(const std::string& name, int platform_index, int device_index) {
  OpenClDevice device;
  device.name = name;
  device.platform_name = "Platform" + std::to_string(platform_index);
  device.driver_version = "1.5";
  device.platform_index = platform_index;
  device.device_index = device_index;
  device.largest_group = 1024;
  device.group_memory = KiB(48);
  return device;
}

const std::vector<OpenClDevice> kDevices = {Named("Arc A770", 0, 0), Named("Radeon 7900", 1, 0),
                                            Named("Radeon 6800 (1:0)", 1, 1)};

TEST_CASE("a variant names an OpenCL device by nothing, by two indexes or by a part of its name") {
  struct Case {
    std::string variant, chosen;
  };
  const auto c = GENERATE(values<Case>({{"", "Arc A770"},
                                        {"0:0", "Arc A770"},
                                        {"1:0", "Radeon 7900"},
                                        {"1:1", "Radeon 6800 (1:0)"},
                                        {"radeon", "Radeon 7900"},
                                        {"RADEON 6", "Radeon 6800 (1:0)"},
                                        {"arc a770", "Arc A770"}}));
  CAPTURE(c.variant);
  const auto chosen = ChooseOpenClDevice(kDevices, c.variant);
  REQUIRE(chosen.ok());
  CHECK((*chosen)->name == c.chosen);
}

TEST_CASE("a variant that names no device is refused with those that exist") {
  const std::string variant = GENERATE("2:0", "1:2", "-1:0", "geforce", "0", "0:", ":");
  CAPTURE(variant);
  const auto chosen = ChooseOpenClDevice(kDevices, variant);
  if (variant == "0" || variant == ":") {  // parts of a name
    REQUIRE(chosen.ok());
    return;
  }
  // A position may be filled later, by another driver.
  const bool is_position = variant == "2:0" || variant == "1:2";
  REQUIRE(chosen.status().code() ==
          (is_position ? absl::StatusCode::kNotFound : absl::StatusCode::kInvalidArgument));
  CHECK_THAT(std::string(chosen.status().message()), Catch::Contains("\"" + variant + "\"") &&
                                                         Catch::Contains("0:0 Arc A770 (Platform0 1.5)") &&
                                                         Catch::Contains("1:1 Radeon 6800"));
  CHECK_THAT(std::string(ChooseOpenClDevice({}, variant).status().message()),
             Catch::Contains("there is none"));
}

TEST_CASE("a device too small for the kernels says what it lacks") {
  OpenClDevice device = kDevices[0];
  CHECK(CheckOpenClDevice(device).ok());
  device.largest_group = 255;
  CHECK(absl::IsUnimplemented(CheckOpenClDevice(device)));
  CHECK_THAT(std::string(CheckOpenClDevice(device).message()), Catch::Contains("at most 255 work-items"));
  device = kDevices[0];
  device.group_memory = KiB(16);
  CHECK_THAT(std::string(CheckOpenClDevice(device).message()), Catch::Contains("16.0 KiB"));
}

TEST_CASE("what a driver reports is complete and can be chosen by its position and its name") {
  const auto opencl = LoadOpenCl();
  if (!opencl.ok()) {
    PartlySkipped("what a driver reports", std::string(opencl.status().message()));
    return;
  }
  const std::vector<OpenClDevice> devices = ListOpenClDevices(**opencl);
  for (const OpenClDevice& device : devices) {
    CAPTURE(device.title());
    CHECK(!device.name.empty());
    CHECK(!device.driver_version.empty());
    CHECK(device.memory > MiB(1));
    CHECK(device.largest_buffer <= device.memory);
    const std::string position =
        std::to_string(device.platform_index) + ":" + std::to_string(device.device_index);
    const auto by_position = ChooseOpenClDevice(devices, position);
    REQUIRE(by_position.ok());
    CHECK(*by_position == &device);
    const auto by_name = ChooseOpenClDevice(devices, device.name);
    REQUIRE(by_name.ok());
    CHECK((*by_name)->name == device.name);
  }
}

TEST_CASE("OpenCL's codes become statuses that name them") {
  CHECK(OpenClStatus(CL_SUCCESS, "x").ok());
  CHECK(absl::IsResourceExhausted(OpenClStatus(CL_MEM_OBJECT_ALLOCATION_FAILURE, "x")));
  const absl::Status unknown = OpenClStatus(-9999, "computing");
  CHECK(absl::IsInternal(unknown));
  CHECK(unknown.message() == "computing: OpenCL error (-9999)");
  CHECK(OpenClStatus(CL_INVALID_KERNEL_NAME, "x").message() == "x: CL_INVALID_KERNEL_NAME (-46)");
}

}  // namespace
}  // namespace medley
