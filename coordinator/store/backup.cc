#include "coordinator/store/backup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "coordinator/store/database.h"
#include "coordinator/store/directory_lock.h"
#include "coordinator/store/schema.h"
#include "coordinator/store/store.h"
#include "runtime/base/bytes.h"
#include "runtime/base/files/atomic_file.h"
#include "runtime/base/files/file_error.h"
#include "runtime/base/files/file_reader.h"
#include "runtime/base/files/write_all.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status_macros.h"

namespace medley {

namespace fs = std::filesystem;

namespace {

// A directory is its service's user's: what root has put there would be nobody's else to open. No links are followed, by which that
// user could be given any file.
absl::Status GiveToOwner(const std::string& directory, std::initializer_list<std::string> files) {
  struct stat owned = {};
  if (geteuid() != 0 || stat(directory.c_str(), &owned) != 0) return absl::OkStatus();
  for (const std::string& file : files) {
    if (lchown(file.c_str(), owned.st_uid, owned.st_gid) != 0)
      return absl::UnavailableError(absl::StrCat(file, " cannot be given to the owner of ", directory));
  }
  return absl::OkStatus();
}

// A new file, readable for its owner alone. A link that somebody put there meanwhile is not written through.
absl::Status Copy(const FileReader& from, const std::string& to) {
  const int descriptor = open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (descriptor < 0) return FileError(errno, "create", to);
  const absl::Cleanup closing = [&] { close(descriptor); };
  std::vector<std::byte> part;
  for (int64_t at = 0; at < from.bytes(); at += static_cast<int64_t>(part.size())) {
    part.resize(static_cast<size_t>(std::min(MiB(1).value, from.bytes() - at)));
    RETURN_IF_ERROR(from.Read(at, absl::MakeSpan(part)));
    const int error = WriteAll(descriptor, {reinterpret_cast<const char*>(part.data()), part.size()});
    if (error != 0) return FileError(error, "write", to);
  }
  return absl::OkStatus();
}

}  // namespace

// By a connection of its own, which reads one moment's state while others write.
absl::Status Store::BackUp(const std::string& file) {
  // SQLite would let everybody read it whom the process's umask lets.
  const int descriptor = open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kOwnerAlone);
  if (descriptor < 0) return FileError(errno, "create", file);
  close(descriptor);
  ASSIGN_OR_RETURN(const std::unique_ptr<Database> reader,
                   Database::Open(directory_ + "/medley.db", Bytes{0}));
  return reader->Run("VACUUM INTO ?", file);
}

absl::Status Store::Check() {
  const auto check = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::unique_ptr<Database> reader,
                     Database::Open(directory_ + "/medley.db", Bytes{0}));
    return CheckSchema(*reader);
  };
  const absl::Status whole = check();
  const MutexLock lock(mutex_);
  is_whole_ = whole.ok();
  return whole;
}

absl::Status RestoreStore(const std::string& file, const std::string& directory) {
  ASSIGN_OR_RETURN(const FileReader backup, FileReader::Open(file));
  ASSIGN_OR_RETURN(const std::unique_ptr<DirectoryLock> lock,
                   DirectoryLock::Acquire(directory, "medley.lock"));
  RETURN_IF_ERROR(GiveToOwner(directory, {directory + "/medley.lock"}));
  const std::string target = directory + "/medley.db", partial = target + ".restored";
  std::error_code error;
  // What another database of that name left beside it would be taken for this one's newest changes.
  for (const char* rest : {"", "-wal", "-shm", "-journal"}) {
    if (fs::exists(target + rest, error))
      return absl::FailedPreconditionError(
          absl::StrCat(target, rest, " is there already; a backup is restored into another directory"));
    fs::remove(partial + rest, error);
  }
  const auto check = [&]() -> absl::Status {
    RETURN_IF_ERROR(Copy(backup, partial));
    ASSIGN_OR_RETURN(const std::unique_ptr<Database> database, Database::Open(partial, Bytes{0}));
    RETURN_IF_ERROR(CheckSchema(*database));
    // What was spent or revoked since would be good again.
    RETURN_IF_ERROR(ForgetJoinTokens(*database));
    // What was last written stands in the file itself when the other name is given to it.
    RETURN_IF_ERROR(database->Run("PRAGMA journal_mode = DELETE"));
    RETURN_IF_ERROR(GiveToOwner(directory, {partial}));
    return SyncFile(partial);
  };
  const absl::Status whole = check();
  if (whole.ok()) fs::rename(partial, target, error);
  if (!whole.ok() || error) {
    std::error_code ignored;
    fs::remove(partial, ignored);
  }
  if (!whole.ok())
    return absl::Status(whole.code(),
                        absl::StrCat("the backup ", file, " is not restored: ", whole.message()));
  if (error) return absl::UnavailableError(absl::StrCat(target, " cannot be written: ", error.message()));
  return SyncDirectory(directory);
}

}  // namespace medley
