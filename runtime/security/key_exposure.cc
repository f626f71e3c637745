#include "runtime/security/key_exposure.h"

#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_format.h"

namespace medley {

std::string KeyExposure(const std::string& field, const std::string& file) {
  struct stat found = {};
  if (stat(file.c_str(), &found) != 0) return "";
  const mode_t mode = found.st_mode & 0777;
  const bool is_own = found.st_uid == geteuid() && found.st_uid != 0;
  const mode_t nobodys = is_own ? S_IRWXG | S_IRWXO : S_IRWXO;
  if ((mode & nobodys) == 0) return "";
  return absl::StrFormat(
      "%s: others than its owner can use the private key %s, whose mode is %04o; chmod %s %s, and issue "
      "another if they may have read it",
      field, file, mode, is_own ? "600" : "o=", file);
}

}  // namespace medley
