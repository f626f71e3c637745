#include "runtime/device/device_name.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

TEST_CASE("a device's name is its backend, its variant and how many cores it takes") {
  struct Case {
    std::string text, backend, variant;
    std::vector<int> cores;
  };
  const auto c = GENERATE(values<Case>({{"reference", "reference", "", {}},
                                        {"cpu:avx512", "cpu", "avx512", {}},
                                        {"cpu:avx2/2", "cpu", "avx2", {0, 1}},
                                        {"reference/1", "reference", "", {0}}}));
  CAPTURE(c.text);
  const absl::StatusOr<DeviceDescription> device = ParseDeviceName(c.text);
  REQUIRE(device.ok());
  CHECK(device->name == c.text);
  CHECK(device->backend == c.backend);
  CHECK(device->variant == c.variant);
  CHECK(device->cores == c.cores);
}

TEST_CASE("what is no device's name is refused with the text and what to write instead") {
  const std::string text = GENERATE(as<std::string>(), "", ":avx2", "cpu:", "cpu/", "cpu/0", "cpu/-1",
                                    "cpu/two", "cpu:avx2/5000", "/2");
  CAPTURE(text);
  const absl::Status status = ParseDeviceName(text).status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK(status.message().find("device \"" + text + "\"") != absl::string_view::npos);
  CHECK(status.message().find("BACKEND[:VARIANT][/CORES]") != absl::string_view::npos);
}

}  // namespace
}  // namespace medley
