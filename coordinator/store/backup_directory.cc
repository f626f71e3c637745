#include "coordinator/store/backup_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/store/database.h"
#include "coordinator/store/schema.h"
#include "runtime/base/files/atomic_file.h"
#include "runtime/base/files/file_error.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

namespace fs = std::filesystem;

// Four digits of the year, where %Y would read all that there are.
constexpr char kNameFormat[] = "medley-%E4Y%m%dT%H%M%SZ.db";
constexpr char kPartial[] = ".partial";

std::string NameOf(absl::Time time) { return absl::FormatTime(kNameFormat, time, absl::UTCTimeZone()); }

// Nothing for a name that NameOf does not give, to the letter.
std::optional<absl::Time> TimeOf(const std::string& name) {
  absl::Time time;
  if (!absl::ParseTime(kNameFormat, name, absl::UTCTimeZone(), &time, nullptr) || NameOf(time) != name)
    return std::nullopt;
  return time;
}

absl::Status CheckFile(const std::string& file) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Database> database, Database::Open(file, Bytes{0}));
  return CheckSchema(*database);
}

}  // namespace

absl::Status BackupDirectory::Prepare() const {
  if (mkdir(path_.c_str(), 0700) == 0) return absl::OkStatus();
  if (errno != EEXIST) return FileError(errno, "create directory", path_);
  std::error_code ignored;
  if (!fs::is_directory(path_, ignored)) return FileError(ENOTDIR, "use as directory", path_);
  if (access(path_.c_str(), R_OK | W_OK | X_OK) != 0) return FileError(errno, "write into directory", path_);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<absl::Time>> BackupDirectory::List(const std::string& ending) const {
  std::vector<absl::Time> times;
  std::error_code error, ignored;
  for (fs::directory_iterator entry(path_, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!absl::EndsWith(name, ending) || !fs::is_regular_file(entry->symlink_status(ignored))) continue;
    const std::optional<absl::Time> time = TimeOf(name.substr(0, name.size() - ending.size()));
    if (time.has_value()) times.push_back(*time);
  }
  if (error) return FileError(error.value(), "read directory", path_);
  std::sort(times.begin(), times.end());
  return times;
}

absl::StatusOr<std::optional<absl::Time>> BackupDirectory::Newest(absl::Time now) const {
  ASSIGN_OR_RETURN(const std::vector<absl::Time> times, List(""));
  const auto after = std::upper_bound(times.begin(), times.end(), now);
  return after == times.begin() ? std::nullopt : std::optional(*(after - 1));
}

std::string BackupDirectory::PathOf(absl::Time time) const { return absl::StrCat(path_, "/", NameOf(time)); }

absl::Status BackupDirectory::Remove(const std::string& file) const {
  if (std::remove(file.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return FileError(errno, "remove", file);
}

absl::Status BackupDirectory::Write(Store& store, const std::string& partial, const std::string& file) const {
  RETURN_IF_ERROR(store.BackUp(partial));
  RETURN_IF_ERROR(CheckFile(partial));
  RETURN_IF_ERROR(SyncFile(partial));
  if (std::rename(partial.c_str(), file.c_str()) != 0) return FileError(errno, "rename to", file);
  return SyncDirectory(path_);
}

absl::StatusOr<std::string> BackupDirectory::Add(Store& store, absl::Time now) const {
  RETURN_IF_ERROR(Prepare());
  // Of coordinators that were killed.
  ASSIGN_OR_RETURN(const std::vector<absl::Time> left_over, List(kPartial));
  for (const absl::Time time : left_over) RETURN_IF_ERROR(Remove(PathOf(time) + kPartial));
  const std::string file = PathOf(now), partial = file + kPartial;
  const absl::Status written = Write(store, partial, file);
  if (!written.ok()) {
    std::remove(partial.c_str());
    return written;
  }
  ASSIGN_OR_RETURN(std::vector<absl::Time> others, List(""));
  std::erase_if(others, [&](absl::Time time) { return NameOf(time) == NameOf(now); });
  const size_t stay = static_cast<size_t>(keep_) - 1;
  for (size_t i = 0; i + stay < others.size(); ++i) RETURN_IF_ERROR(Remove(PathOf(others[i])));
  return file;
}

}  // namespace medley
