#pragma once
#include <filesystem>
#include <fstream>
#include <string>

namespace medley {

// The first line of a file, such as those of /proc and /sys; "" where it cannot be read.
inline std::string FirstLine(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace medley
