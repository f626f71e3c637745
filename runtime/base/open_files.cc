#include "runtime/base/open_files.h"

#include <sys/resource.h>

#include <filesystem>
#include <iterator>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace medley {
namespace {

// For data files, checkpoints, drivers.
constexpr int64_t kComeAndGo = 32;

// 0: not known.
int64_t OpenNow() {
  std::error_code error;
  const std::filesystem::directory_iterator files("/proc/self/fd", error);
  return error ? 0 : std::distance(begin(files), end(files));
}

}  // namespace

void RaiseOpenFilesLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

absl::Status CheckOpenFilesFor(int64_t more, const std::string& what) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return absl::OkStatus();
  const int64_t open = OpenNow(), all = static_cast<int64_t>(limit.rlim_cur);
  if (open + more + kComeAndGo <= all) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(what, " need ", more, " open files beside ", open,
                                                    " that are open and ", kComeAndGo,
                                                    " for what comes and goes; the limit is ", all,
                                                    ". Raise the hard limit of the agent that starts the "
                                                    "worker (ulimit -Hn, or LimitNOFILE= of its service)"));
}

}  // namespace medley
