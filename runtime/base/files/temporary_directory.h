#pragma once
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace medley {

// A new empty directory for one test, removed with everything in it at the end of its life.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    const char* parent = std::getenv("TEST_TMPDIR");
    path_ = std::string(parent != nullptr ? parent : "/tmp") + "/medley-XXXXXX";
    if (mkdtemp(path_.data()) == nullptr) std::abort();
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

  // Writes `contents` to the file `name` in this directory; returns its path.
  std::string Write(const std::string& name, const std::string& contents) const {
    std::ofstream(File(name), std::ios::binary) << contents;
    return File(name);
  }

 private:
  std::string path_;
};

}  // namespace medley
