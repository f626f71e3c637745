#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/base/files/checkpoint_pace.h"

struct XXH3_state_s;

namespace medley {

// What identifies a file's contents.
struct FileDigest {
  int64_t bytes = 0;
  uint64_t xxh3 = 0;  // XXH3_64bits of all of them
  friend bool operator==(const FileDigest&, const FileDigest&) = default;
};
FileDigest DigestOf(absl::Span<const std::byte> contents);

// Part of the name of every file that is being written aside; what bears it is never a finished file.
inline constexpr char kPartialMarker[] = ".partial-";

// A file that exists at its path whole or not at all. Written aside in the same directory under a name of its
// own ("<path>.partial-<process>-<number>"), so that several processes may write the same directory. One
// thread.
//
// Errors of every call: the code of FileError, ResourceExhausted where the disk, a quota or the process's
// file size limit is full; the message has the path and the system's text. After one the file is gone from
// aside and what was at `path` before is untouched, unless Commit says otherwise.
class AtomicFile {
 public:
  // `mode`: who may read and write it, less what the process's umask forbids.
  static absl::StatusOr<std::unique_ptr<AtomicFile>> Create(const std::string& path, mode_t mode = 0666);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();  // without a successful Commit nothing is left behind

  // Appends all of `bytes`. Blocks, at the pace of checkpoints. What was appended goes to the disk meanwhile,
  // so that little is left to wait for in Commit. After an error every later call returns that error.
  absl::Status Append(absl::Span<const std::byte> bytes);

  // Makes the contents durable, then the name: replaces what was at `path`. Call once.
  // If the last of it, making the directory durable, fails, then the new file is at `path` but may be gone
  // after a power failure.
  absl::StatusOr<FileDigest> Commit();

 private:
  AtomicFile(std::string path, std::string aside, int descriptor);
  absl::Status Fail(const std::string& action, int error_number);
  // Waits until the window before the last is on the disk, and begins with the last.
  absl::Status StartWriteback();

  const std::string path_;
  const std::string aside_;
  int descriptor_;  // -1 once closed
  bool aside_exists_ = true;
  int64_t bytes_ = 0;
  int64_t written_back_ = 0;  // bytes whose way to the disk has begun
  CheckpointPace pace_;
  absl::Status status_;
  std::unique_ptr<XXH3_state_s, void (*)(XXH3_state_s*)> hash_;
};

// The mode of what nobody else may read.
inline constexpr mode_t kOwnerAlone = 0600;

absl::Status WriteFileAtomically(const std::string& path, const std::string& contents, mode_t mode = 0666);

// Creates `path` and its missing parents, durably. Not an error if it is there.
absl::Status CreateDirectories(const std::string& path);

// Makes the contents of the file `path` durable, whoever wrote them.
absl::Status SyncFile(const std::string& path);

// Makes the names in the directory `path` durable.
absl::Status SyncDirectory(const std::string& path);

}  // namespace medley
