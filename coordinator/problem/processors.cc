#include "coordinator/problem/processors.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace medley {
namespace {

// The first device of the group that `device` is in.
int FirstOf(const std::vector<int>& parents, int device) {
  while (parents[device] != device) device = parents[device];
  return device;
}

}  // namespace

std::vector<int> SharedProcessors(const std::vector<HeldCores>& devices) {
  std::vector<int> parents(devices.size());
  std::iota(parents.begin(), parents.end(), 0);
  std::map<std::pair<std::string, uint32_t>, int> first_with_core;
  for (int device = 0; device < static_cast<int>(devices.size()); ++device) {
    for (const uint32_t core : devices[device].cores) {
      const int other = first_with_core.emplace(std::pair(devices[device].host, core), device).first->second;
      const int a = FirstOf(parents, device), b = FirstOf(parents, other);
      parents[std::max(a, b)] = std::min(a, b);
    }
  }
  std::vector<int> processors(devices.size());
  int next = 0;
  for (int device = 0; device < static_cast<int>(devices.size()); ++device) {
    const int first = FirstOf(parents, device);
    processors[device] = first == device ? next++ : processors[first];
  }
  return processors;
}

}  // namespace medley
