#pragma once
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace medley {

// The right to use a directory, alone among all processes and within this one. Ends with the object, or with
// the process however that ends. Not inherited by programs that are executed.
class DirectoryLock {
 public:
  // Makes `directory` and its parents if they are missing, and locks `directory`/`file_name`, which stays.
  // FailedPrecondition: someone else has the lock; the directory cannot be made or written to; or the file is a link, which root would
  // follow to what the directory's owner may not open; with why.
  // ResourceExhausted: the disk is full. Each names the path at fault.
  static absl::StatusOr<std::unique_ptr<DirectoryLock>> Acquire(const std::string& directory,
                                                                const std::string& file_name);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  explicit DirectoryLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace medley
