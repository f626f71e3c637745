#include "comm/ucx/host_identity.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "absl/strings/str_cat.h"

namespace medley {
namespace {

std::string FirstLine(const char* path) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) ? line : "?";
}

std::string Namespace(const char* path) {
  struct stat about;
  return stat(path, &about) == 0 ? absl::StrCat(about.st_dev, ".", about.st_ino) : "?";
}

}  // namespace

std::string HostIdentity() {
  struct stat memory;
  const std::string memory_device = stat("/dev/shm", &memory) == 0 ? absl::StrCat(memory.st_dev) : "?";
  // The host's name last, cut: it is what a container may choose freely.
  return absl::StrCat(FirstLine("/proc/sys/kernel/random/boot_id"), " net ", Namespace("/proc/self/ns/net"),
                      " ipc ", Namespace("/proc/self/ns/ipc"), " pid ", Namespace("/proc/self/ns/pid"),
                      " shm ", memory_device, " user ", geteuid(), " ",
                      FirstLine("/proc/sys/kernel/hostname"))
      .substr(0, 512);
}

}  // namespace medley
