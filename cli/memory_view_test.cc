#include "cli/memory_view.h"

#include <catch2/catch.hpp>
#include <random>
#include <sstream>

#include "cli/text_table.h"

namespace medley {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20, kGiB = uint64_t{1} << 30;

v1::DeviceShare& AddDevice(v1::PlanReport& report, const std::string& name, uint64_t unit) {
  v1::DeviceShare& device = *report.add_devices();
  device.set_device(name);
  device.set_used(true);
  device.set_peak_memory_bytes(12 * unit);
  device.set_memory_limit_bytes(16 * unit);
  v1::DeviceMemory& memory = *device.mutable_memory();
  memory.set_parameter_bytes(unit);
  memory.set_gradient_bytes(unit);
  memory.set_optimizer_bytes(2 * unit);
  memory.set_activation_bytes(7 * unit / 2);
  return device;
}

TEST_CASE("the memory of devices in use is told in parts, without those that none has") {
  v1::PlanReport report;
  CHECK(FormatMemory(report) == "");
  AddDevice(report, "a/cpu0", kMiB);
  // Too little to be seen, as the scalars that all ranks sum.
  report.mutable_devices(0)->mutable_memory()->set_sum_bytes(72);
  AddDevice(report, "a/cpu1", kMiB).set_used(false);
  AddDevice(report, "a/cpu2", kMiB / 2);
  AddDevice(report, "a/\x1b", kMiB).clear_memory();
  CHECK(FormatMemory(report) ==
        "MEMORY IN MiB  WEIGHTS  GRADIENTS  OPTIMIZER  KEPT  WORKSPACE  TOTAL  LIMIT\n"
        "a/cpu0            1.00       1.00       2.00  3.50       4.50  12.00  16.00\n"
        "a/cpu2            0.50       0.50       1.00  1.75       2.25   6.00   8.00\n");
  report.mutable_devices(2)->mutable_memory()->set_window_bytes(kMiB / 4);
  report.mutable_devices(2)->mutable_memory()->set_host_bytes(20 * kMiB);
  CHECK(FormatMemory(report) ==
        "MEMORY IN MiB  WEIGHTS  GRADIENTS  OPTIMIZER  KEPT  WINDOWS  WORKSPACE  TOTAL  LIMIT  ON HOST\n"
        "a/cpu0            1.00       1.00       2.00  3.50        -       4.50  12.00  16.00        -\n"
        "a/cpu2            0.50       0.50       1.00  1.75     0.25       2.00   6.00   8.00    20.00\n");
  report.mutable_devices(2)->clear_memory();
  report.mutable_devices(0)->mutable_memory()->set_copy_bytes(kMiB / 2);
  CHECK(FormatMemory(report) ==
        "MEMORY IN MiB  WEIGHTS  GRADIENTS  OPTIMIZER  KEPT  COPIES  WORKSPACE  TOTAL  LIMIT\n"
        "a/cpu0            1.00       1.00       2.00  3.50    0.50       4.00  12.00  16.00\n");
  report.mutable_devices(0)->set_device("a/\x1b[2J");
  CHECK_THAT(FormatMemory(report), Catch::Contains("\na/\\x1b[2J "));
}

TEST_CASE("of many devices those that have the same in memory are one line, with what their hosts have") {
  v1::PlanReport report;
  for (int d = 0; d < 40; ++d) {
    v1::DeviceMemory& memory = *AddDevice(report, "a/gpu" + std::to_string(d), kGiB).mutable_memory();
    memory.set_boundary_bytes(kGiB / 4);
    memory.set_sum_bytes(kGiB / 2);
    memory.set_host_limit_bytes(64 * kGiB);
    if (d < 35) continue;
    memory.set_window_bytes(kGiB);
    memory.set_host_bytes(8 * kGiB);
  }
  CHECK(
      FormatMemory(report) ==
      "MEMORY IN GiB       WEIGHTS  GRADIENTS  OPTIMIZER  KEPT  BOUNDARIES  SUMS  WINDOWS  WORKSPACE  TOTAL  "
      "LIMIT  ON HOST  OF HOST\n"
      "a/gpu0 and 34 more     1.00       1.00       2.00  3.50        0.25  0.50        -       3.75  12.00  "
      "16.00        -        -\n"
      "a/gpu35 and 4 more     1.00       1.00       2.00  3.50        0.25  0.50     1.00       2.75  12.00  "
      "16.00     8.00    64.00\n");
  const std::string narrow = FormatMemory(report, 80);
  std::istringstream lines(narrow);
  for (std::string line; std::getline(lines, line);) CHECK(DisplayWidth(line) <= 80);
  CHECK_THAT(narrow, Catch::Contains("\n    boundaries: 0.25\n"));
}

TEST_CASE("the parts of a device's memory that are shown add up to its total", "[property]") {
  constexpr uint64_t kSeed = 20261107;
  INFO("seed " << kSeed);
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 200; ++round) {
    v1::PlanReport report;
    v1::DeviceShare& device = *report.add_devices();
    device.set_device("a/gpu0");
    device.set_used(true);
    uint64_t total = 0;
    // Up to a KiB, a MiB, ... or nothing.
    const auto part = [&] {
      const uint64_t most = uint64_t{1} << (10 * (random() % 5));
      const uint64_t bytes = random() % most;
      total += bytes;
      return bytes;
    };
    v1::DeviceMemory& memory = *device.mutable_memory();
    memory.set_parameter_bytes(part());
    memory.set_gradient_bytes(part());
    memory.set_optimizer_bytes(part());
    memory.set_activation_bytes(part());
    memory.set_boundary_bytes(part());
    memory.set_sum_bytes(part());
    memory.set_window_bytes(part());
    memory.set_copy_bytes(part());
    part();  // workspace
    device.set_peak_memory_bytes(total);
    const std::string text = FormatMemory(report);
    CAPTURE(round, text);
    std::istringstream row(text.substr(text.find('\n') + 1));
    std::string name;
    row >> name;
    double sum = 0, last = 0;
    for (std::string cell; row >> cell;) {
      sum += last;
      last = cell == "-" ? 0 : std::stod(cell);
    }
    CHECK(sum == Approx(last).margin(0.05));  // ten figures, each rounded
  }
}

}  // namespace
}  // namespace medley
