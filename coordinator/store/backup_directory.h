#pragma once
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/store/store.h"

namespace medley {

// Backups of one store, a file for each, named by the second in UTC: "medley-20260131T235959Z.db". A file with another name is never
// touched. One thread.
//
// Errors of every call: those of FileError, NotFound where the directory's parent is missing, PermissionDenied where the directory cannot be
// written to; names the path.
class BackupDirectory {
 public:
  // `keep`: how many backups stay, at least 1.
  BackupDirectory(std::string path, int keep) : path_(std::move(path)), keep_(keep) {}

  // Makes the directory, for its owner alone, if it is missing, and sees that it can be written to.
  absl::Status Prepare() const;

  // The newest of those that are not of the future, which a clock that was wrong once leaves behind.
  absl::StatusOr<std::optional<absl::Time>> Newest(absl::Time now) const;

  // Writes one, reads all of it to see that it is whole, and makes it durable under its name; its path. Only then are the oldest
  // above `keep` removed, and never the new one. After another error there is no new one and none is removed.
  absl::StatusOr<std::string> Add(Store& store, absl::Time now) const;

 private:
  // Oldest first, with this behind their names.
  absl::StatusOr<std::vector<absl::Time>> List(const std::string& ending) const;
  std::string PathOf(absl::Time time) const;
  absl::Status Remove(const std::string& file) const;
  absl::Status Write(Store& store, const std::string& partial, const std::string& file) const;

  const std::string path_;
  const int keep_;
};

}  // namespace medley
