#include "coordinator/store/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

absl::Status FromErrno(int error, const std::string& what) {
  const std::string message = absl::StrCat(what, ": ", strerror(error));
  if (error == ENOSPC || error == EDQUOT) return absl::ResourceExhaustedError(message);
  return absl::FailedPreconditionError(message);
}

// So that the entry of what was made in `directory` survives a power cut.
absl::Status SyncDirectory(const std::string& directory) {
  const int descriptor = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return FromErrno(errno, absl::StrCat("opening directory ", directory));
  const int synced = fsync(descriptor);
  const int error = errno;
  close(descriptor);
  // Some file systems have nothing to sync for a directory and say so with EINVAL.
  if (synced != 0 && error != EINVAL) return FromErrno(error, absl::StrCat("syncing directory ", directory));
  return absl::OkStatus();
}

std::string ParentOf(const std::string& directory) {
  const size_t end = directory.find_last_not_of('/');
  const size_t slash = end == std::string::npos ? end : directory.rfind('/', end);
  if (slash == std::string::npos) return end == std::string::npos ? "/" : ".";
  return slash == 0 ? "/" : directory.substr(0, slash);
}

absl::Status MakeDirectory(const std::string& directory) {
  struct stat found;
  if (stat(directory.c_str(), &found) == 0) {
    if (S_ISDIR(found.st_mode)) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(directory, " is not a directory"));
  }
  const std::string parent = ParentOf(directory);
  RETURN_IF_ERROR(MakeDirectory(parent));
  // Jobs name data and hosts: nobody else's business.
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return FromErrno(errno, absl::StrCat("making directory ", directory));
  }
  return SyncDirectory(parent);
}

}  // namespace

absl::StatusOr<std::unique_ptr<DirectoryLock>> DirectoryLock::Acquire(const std::string& directory,
                                                                      const std::string& file_name) {
  if (directory.empty()) return absl::FailedPreconditionError("directory is empty; allowed is a path");
  RETURN_IF_ERROR(MakeDirectory(directory));
  const std::string path = absl::StrCat(directory, "/", file_name);
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (descriptor < 0) return FromErrno(errno, absl::StrCat("opening ", path));
  std::unique_ptr<DirectoryLock> lock(new DirectoryLock(descriptor));
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, " is locked: another process uses ", directory));
    }
    return FromErrno(errno, absl::StrCat("locking ", path));
  }
  return lock;
}

DirectoryLock::~DirectoryLock() { close(descriptor_); }

}  // namespace medley
