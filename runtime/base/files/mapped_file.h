#pragma once
#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace medley {

// A whole file, read-only, in memory as the operating system pages it in. Movable; unmapped at the end of its
// life. Reading is safe from any number of threads.
class MappedFile {
 public:
  // Maps `path`. An empty file is mapped as no bytes.
  //
  // Errors:
  //   InvalidArgument   `path` is not a regular file.
  //   Otherwise         the code of FileError; the message names the path.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  // Valid as long as this object, wherever it is moved to.
  absl::Span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  // FailedPrecondition: the file is shorter now than when it was opened, so that bytes past its new end
  // cannot be read (touching them would end the process). One system call.
  absl::Status CheckNotShrunk() const;

 private:
  MappedFile(std::string path, int descriptor, const std::byte* data, size_t size)
      : path_(std::move(path)), descriptor_(descriptor), data_(data), size_(size) {}
  void Release();

  std::string path_;
  int descriptor_ = -1;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace medley
