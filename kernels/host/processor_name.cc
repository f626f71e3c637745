#include "kernels/host/processor_name.h"

#include <fstream>

namespace medley {

std::string ProcessorName() {
  const std::string key = "model name";
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const size_t begin = line.find_first_not_of(" \t:", key.size());
    if (begin != std::string::npos) return line.substr(begin);
  }
  return "unknown processor";
}

}  // namespace medley
