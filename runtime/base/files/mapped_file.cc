#include "runtime/base/files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/files/file_error.h"

namespace medley {

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  // O_NONBLOCK: a named pipe is refused below instead of waited for.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return FileError(errno, "open", path);
  MappedFile file(path, descriptor, nullptr, 0);
  struct stat status;
  if (fstat(descriptor, &status) != 0) return FileError(errno, "stat", path);
  if (!S_ISREG(status.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  if (status.st_size == 0) return file;
  const size_t size = static_cast<size_t>(status.st_size);
  void* data = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) return FileError(errno, "map", path);
  file.data_ = static_cast<const std::byte*>(data);
  file.size_ = size;
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this == &other) return *this;
  Release();
  path_ = std::move(other.path_);
  descriptor_ = std::exchange(other.descriptor_, -1);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

MappedFile::~MappedFile() { Release(); }

void MappedFile::Release() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
  if (descriptor_ >= 0) close(descriptor_);
  data_ = nullptr;
  descriptor_ = -1;
}

absl::Status MappedFile::CheckNotShrunk() const {
  struct stat status;
  if (fstat(descriptor_, &status) != 0) return FileError(errno, "stat", path_);
  if (static_cast<size_t>(status.st_size) >= size_) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(path_, ": shrank from ", size_, " to ",
                                                    static_cast<int64_t>(status.st_size),
                                                    " bytes since it was opened"));
}

}  // namespace medley
