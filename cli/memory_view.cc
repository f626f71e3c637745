#include "cli/memory_view.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/text_table.h"

namespace medley {
namespace {

struct SizeUnit {
  const char* name;
  double bytes;
};

// The largest of which `bytes` are at least one, or the smallest.
SizeUnit UnitFor(uint64_t bytes) {
  if (bytes >= uint64_t{1} << 30) return {"GiB", 0x1p30};
  if (bytes >= uint64_t{1} << 20) return {"MiB", 0x1p20};
  return {"KiB", 0x1p10};
}

uint64_t WorkspaceOf(const v1::DeviceShare& device) {
  const v1::DeviceMemory& memory = device.memory();
  const uint64_t parts = memory.parameter_bytes() + memory.gradient_bytes() + memory.optimizer_bytes() +
                         memory.activation_bytes() + memory.boundary_bytes() + memory.sum_bytes() +
                         memory.window_bytes() + memory.copy_bytes();
  return std::max(device.peak_memory_bytes(), parts) - parts;
}

}  // namespace

std::string FormatMemory(const v1::PlanReport& report, size_t columns) {
  std::vector<const v1::DeviceShare*> devices;
  uint64_t fullest = 0;
  for (const v1::DeviceShare& device : report.devices()) {
    if (!device.used() || !device.has_memory()) continue;
    devices.push_back(&device);
    fullest = std::max(fullest, device.peak_memory_bytes());
  }
  if (devices.empty()) return "";
  const SizeUnit unit = UnitFor(fullest);
  std::vector<std::vector<std::string>> rows = {{absl::StrCat("MEMORY IN ", unit.name)}};
  for (const v1::DeviceShare* const device : devices) rows.push_back({Printable(device->device())});
  const auto add = [&](const char* heading, const auto& bytes_of) {
    std::vector<std::string> cells;
    bool says_something = false;
    for (const v1::DeviceShare* const device : devices) {
      const uint64_t bytes = bytes_of(*device);
      cells.push_back(bytes == 0 ? "-" : absl::StrFormat("%.2f", static_cast<double>(bytes) / unit.bytes));
      says_something = says_something || (cells.back() != "-" && cells.back() != "0.00");
    }
    if (!says_something) return;
    rows[0].push_back(heading);
    for (size_t d = 0; d < cells.size(); ++d) rows[d + 1].push_back(std::move(cells[d]));
  };
  using Share = v1::DeviceShare;
  add("WEIGHTS", [](const Share& device) { return device.memory().parameter_bytes(); });
  add("GRADIENTS", [](const Share& device) { return device.memory().gradient_bytes(); });
  add("OPTIMIZER", [](const Share& device) { return device.memory().optimizer_bytes(); });
  add("KEPT", [](const Share& device) { return device.memory().activation_bytes(); });
  add("BOUNDARIES", [](const Share& device) { return device.memory().boundary_bytes(); });
  add("SUMS", [](const Share& device) { return device.memory().sum_bytes(); });
  add("WINDOWS", [](const Share& device) { return device.memory().window_bytes(); });
  add("COPIES", [](const Share& device) { return device.memory().copy_bytes(); });
  add("WORKSPACE", WorkspaceOf);
  add("TOTAL", [](const Share& device) { return device.peak_memory_bytes(); });
  add("LIMIT", [](const Share& device) { return device.memory_limit_bytes(); });
  add("ON HOST", [](const Share& device) { return device.memory().host_bytes(); });
  add("OF HOST", [](const Share& device) {
    return device.memory().host_bytes() > 0 ? device.memory().host_limit_bytes() : 0;
  });
  return FormatTable(MergeAlike(std::move(rows)), columns);
}

}  // namespace medley
