#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace medley {

// The cores that one device computes on.
struct HeldCores {
  std::string host;             // the machine they are of
  std::vector<uint32_t> cores;  // none: it computes on cores of its own
};

// Parallel to `devices`: equal for those that share a core, directly or through others. Numbered from 0 in
// the order of `devices`.
std::vector<int> SharedProcessors(const std::vector<HeldCores>& devices);

}  // namespace medley
