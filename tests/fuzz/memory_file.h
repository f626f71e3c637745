#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>

namespace medley {

// A file in memory, under a path as long as this lives, for decoders that open files.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view contents) : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
    Rewrite(contents);
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  void Rewrite(std::string_view contents) {
    if (ftruncate(descriptor_, 0) != 0 || lseek(descriptor_, 0, SEEK_SET) != 0) std::abort();
    while (!contents.empty()) {
      const ssize_t written = write(descriptor_, contents.data(), contents.size());
      if (written <= 0) std::abort();
      contents.remove_prefix(static_cast<size_t>(written));
    }
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  const int descriptor_;
};

}  // namespace medley
