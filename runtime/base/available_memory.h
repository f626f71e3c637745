#pragma once
#include <filesystem>

#include "runtime/base/bytes.h"

namespace medley {

// What this process could still take at present without swapping, or being killed for it: the least of what the host
// has ("MemAvailable") and what each control group that it is in (versions 1 and 2), a container's for one, leaves of
// its limit. 0 B: not known. `root`: the folder in which proc and sys are.
Bytes AvailableHostMemory(const std::filesystem::path& root = "/");
// What the host has in all, or the least of those limits. 0 B: not known.
Bytes TotalHostMemory(const std::filesystem::path& root = "/");

}  // namespace medley
