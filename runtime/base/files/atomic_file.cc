#include "runtime/base/files/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/files/file_error.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr int64_t kWritebackWindow = int64_t{32} << 20;

void FreeHash(XXH3_state_s* state) { XXH3_freeState(state); }

std::string ParentOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

}  // namespace

FileDigest DigestOf(absl::Span<const std::byte> contents) {
  return {static_cast<int64_t>(contents.size()), XXH3_64bits(contents.data(), contents.size())};
}

absl::StatusOr<std::unique_ptr<AtomicFile>> AtomicFile::Create(const std::string& path, mode_t mode) {
  static std::atomic<uint64_t> number{0};
  while (true) {
    const std::string aside = absl::StrCat(path, kPartialMarker, getpid(), "-", number.fetch_add(1));
    const int descriptor = open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (descriptor >= 0) return std::unique_ptr<AtomicFile>(new AtomicFile(path, aside, descriptor));
    // A process of the same number died while it wrote here: leave its file to who cleans the directory.
    if (errno != EEXIST) return FileError(errno, "create", aside);
  }
}

AtomicFile::AtomicFile(std::string path, std::string aside, int descriptor)
    : path_(std::move(path)),
      aside_(std::move(aside)),
      descriptor_(descriptor),
      hash_(XXH3_createState(), &FreeHash) {
  XXH3_64bits_reset(hash_.get());
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (aside_exists_) unlink(aside_.c_str());
}

absl::Status AtomicFile::Fail(const std::string& action, int error_number) {
  status_ = FileError(error_number, action, path_);
  if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
  if (std::exchange(aside_exists_, false)) unlink(aside_.c_str());
  return status_;
}

absl::Status AtomicFile::Append(absl::Span<const std::byte> bytes) {
  RETURN_IF_ERROR(status_);
  XXH3_64bits_update(hash_.get(), bytes.data(), bytes.size());
  while (!bytes.empty()) {
    const ssize_t written =
        write(descriptor_, bytes.data(), std::min(bytes.size(), static_cast<size_t>(pace_.piece_bytes())));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Fail("write", errno);
    bytes.remove_prefix(static_cast<size_t>(written));
    bytes_ += written;
    pace_.Passed(written);
    if (bytes_ - written_back_ >= kWritebackWindow) RETURN_IF_ERROR(StartWriteback());
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::StartWriteback() {
  const int64_t before = std::max<int64_t>(0, written_back_ - kWritebackWindow);
  constexpr unsigned kWait = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  const bool failed =
      (written_back_ > before && sync_file_range(descriptor_, before, written_back_ - before, kWait) != 0) ||
      sync_file_range(descriptor_, written_back_, bytes_ - written_back_, SYNC_FILE_RANGE_WRITE) != 0;
  // File systems that cannot do it still have fsync. Failures of the disk are told once, here or there.
  if (failed && (errno == EIO || errno == ENOSPC || errno == EDQUOT)) return Fail("write", errno);
  written_back_ = bytes_;
  return absl::OkStatus();
}

absl::StatusOr<FileDigest> AtomicFile::Commit() {
  RETURN_IF_ERROR(status_);
  if (fsync(descriptor_) != 0) return Fail("write", errno);
  // Network file systems report a full disk as late as here.
  if (close(std::exchange(descriptor_, -1)) != 0) return Fail("write", errno);
  if (rename(aside_.c_str(), path_.c_str()) != 0) return Fail("rename to", errno);
  aside_exists_ = false;
  RETURN_IF_ERROR(SyncDirectory(ParentOf(path_)));
  return FileDigest{bytes_, XXH3_64bits_digest(hash_.get())};
}

absl::Status WriteFileAtomically(const std::string& path, const std::string& contents, mode_t mode) {
  ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> file, AtomicFile::Create(path, mode));
  RETURN_IF_ERROR(file->Append({reinterpret_cast<const std::byte*>(contents.data()), contents.size()}));
  return file->Commit().status();
}

absl::Status CreateDirectories(const std::string& path) {
  if (mkdir(path.c_str(), 0777) == 0) return SyncDirectory(ParentOf(path));
  if (errno == ENOENT && ParentOf(path) != path) {
    RETURN_IF_ERROR(CreateDirectories(ParentOf(path)));
    if (mkdir(path.c_str(), 0777) == 0) return SyncDirectory(ParentOf(path));
  }
  const int error_number = errno;
  std::error_code ignored;
  // Another process may have been first.
  if (error_number == EEXIST && std::filesystem::is_directory(path, ignored)) return absl::OkStatus();
  return FileError(error_number, "create directory", path);
}

absl::Status SyncFile(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return FileError(errno, "open", path);
  const int failure = fsync(descriptor) == 0 ? 0 : errno;
  close(descriptor);
  return failure == 0 ? absl::OkStatus() : FileError(failure, "write", path);
}

absl::Status SyncDirectory(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return FileError(errno, "open directory", path);
  const int failure = fsync(descriptor) == 0 ? 0 : errno;
  close(descriptor);
  // Some file systems cannot sync a directory and keep its names durable by themselves.
  if (failure == 0 || failure == EINVAL || failure == ENOTSUP) return absl::OkStatus();
  return FileError(failure, "sync directory", path);
}

}  // namespace medley
