#pragma once
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <filesystem>
#include <string>

namespace medley {

// While it lives, files of this process cannot grow past `bytes`: write() fails with EFBIG, as with ENOSPC on
// a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : former_handler_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &former_);
    const rlimit lowered = {bytes, former_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &lowered);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &former_);
    signal(SIGXFSZ, former_handler_);
  }

 private:
  rlimit former_;
  void (*former_handler_)(int);
};

// A directory with a file system of 64 KiB of its own, where this process may mount one.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& directory) : directory_(directory) {
    std::filesystem::create_directory(directory);
    mounted_ = mount("tmpfs", directory.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "size=64k") == 0;
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    if (mounted_) umount2(directory_.c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }

 private:
  const std::string directory_;
  bool mounted_ = false;
};

}  // namespace medley
