#include "runtime/base/available_memory.h"

#include <fstream>
#include <string>

namespace medley {

Bytes AvailableHostMemory() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  int64_t kibibytes = 0;
  for (std::string unit; file >> name >> kibibytes; std::getline(file, unit)) {
    if (name == "MemAvailable:") return KiB(kibibytes);
  }
  return {};
}

}  // namespace medley
