#include "runtime/base/available_memory.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace medley {
namespace {

namespace fs = std::filesystem;

// The number behind `name` in a file of lines "name number".
std::optional<int64_t> NumberOf(const fs::path& path, const std::string& name) {
  std::ifstream file(path);
  std::string found;
  int64_t number = 0;
  for (std::string rest; file >> found >> number; std::getline(file, rest)) {
    if (found == name) return number;
  }
  return std::nullopt;
}

// Of a file that is one number. None of one that says "max", or is not there.
std::optional<int64_t> NumberIn(const fs::path& path) {
  std::ifstream file(path);
  int64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

// What a control group of one version says, in files of its folder.
struct GroupFiles {
  const char* limit;
  const char* usage;
  std::array<const char*, 2>
      given_back;  // in memory.stat: of the usage, what the kernel gives back rather than kills
};
constexpr GroupFiles kVersion1 = {
    "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}};
constexpr GroupFiles kVersion2 = {"memory.max", "memory.current", {"inactive_file", "active_file"}};

struct Limit {
  int64_t bytes = 0;
  int64_t left = 0;
};

// Of the group in `folder`, and of those that it is in, up to `top`. A container may see only its own, as the top,
// whatever the path that the kernel tells.
void AddLimits(fs::path folder, const fs::path& top, const GroupFiles& files, std::vector<Limit>& limits) {
  while (true) {
    const std::optional<int64_t> limit = NumberIn(folder / files.limit);
    if (limit.has_value()) {
      const int64_t usage = NumberIn(folder / files.usage).value_or(0);
      int64_t given_back = 0;
      for (const char* name : files.given_back)
        given_back += NumberOf(folder / "memory.stat", name).value_or(0);
      limits.push_back({*limit, std::max<int64_t>(0, *limit - std::max<int64_t>(0, usage - given_back))});
    }
    if (folder == top) return;
    folder = folder.parent_path();
  }
}

std::vector<Limit> LimitsOfGroups(const fs::path& root) {
  std::vector<Limit> limits;
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    // "0::/path", or of version 1 "4:memory:/path" or "4:cpu,memory:/path".
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool version2 = controllers == ",,";
    if (!version2 && controllers.find(",memory,") == std::string::npos) continue;
    const fs::path top = root / (version2 ? "sys/fs/cgroup" : "sys/fs/cgroup/memory");
    const fs::path inside = fs::path(line.substr(second + 1)).lexically_normal().relative_path();
    fs::path folder = top;
    for (const fs::path& name : inside) {
      if (!name.empty()) folder /= name;
    }
    AddLimits(folder, top, version2 ? kVersion2 : kVersion1, limits);
  }
  return limits;
}

// The least of `of_host` KiB and what `limits` say. 0 means that it is not known, and hence not that nothing is left.
Bytes Least(std::optional<int64_t> of_host, const std::vector<Limit>& limits, int64_t Limit::*of_limit) {
  int64_t least = std::numeric_limits<int64_t>::max();
  if (of_host.has_value()) least = KiB(*of_host).value;
  for (const Limit& limit : limits) least = std::min(least, limit.*of_limit);
  return least == std::numeric_limits<int64_t>::max() ? Bytes{} : Bytes{std::max<int64_t>(1, least)};
}

}  // namespace

Bytes AvailableHostMemory(const fs::path& root) {
  return Least(NumberOf(root / "proc/meminfo", "MemAvailable:"), LimitsOfGroups(root), &Limit::left);
}

Bytes TotalHostMemory(const fs::path& root) {
  return Least(NumberOf(root / "proc/meminfo", "MemTotal:"), LimitsOfGroups(root), &Limit::bytes);
}

}  // namespace medley
