#include "kernels/host/core_binding.h"

#include <dirent.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/allowed_cores.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

absl::Status Bind(pid_t thread, const std::vector<int>& cores) {
  const int error = SetAllowedCores(thread, cores);
  if (error == 0 || error == ESRCH) return absl::OkStatus();  // ESRCH: a thread that ended meanwhile
  return absl::InvalidArgumentError(
      absl::StrCat("cores ", absl::StrJoin(cores, ","), " cannot be used: ", std::strerror(error)));
}

}  // namespace

absl::Status CheckCores(const std::vector<int>& cores) {
  if (cores.empty()) return absl::InvalidArgumentError("cores is empty; name at least one core");
  const int count = static_cast<int>(sysconf(_SC_NPROCESSORS_CONF));
  std::set<int> seen;
  for (int core : cores) {
    if (core < 0 || core >= count)
      return absl::InvalidArgumentError(
          absl::StrCat("core ", core, " does not exist; this machine has 0 to ", count - 1));
    if (!seen.insert(core).second)
      return absl::InvalidArgumentError(absl::StrCat("core ", core, " is named twice"));
  }
  return absl::OkStatus();
}

absl::Status BindThread(const std::vector<int>& cores) {
  RETURN_IF_ERROR(CheckCores(cores));
  return Bind(0, cores);
}

absl::Status BindProcess(const std::vector<int>& cores) {
  RETURN_IF_ERROR(BindThread(cores));
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == nullptr)
    return absl::OkStatus();  // no /proc: threads started from here on are bound all the same
  absl::Status status;
  while (const dirent* entry = readdir(tasks)) {
    const pid_t thread = std::atoi(entry->d_name);
    if (thread > 0 && status.ok()) status = Bind(thread, cores);
  }
  closedir(tasks);
  return status;
}

}  // namespace medley
