#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace medley {

// A regular file that is copied out piece by piece, for readers that must survive a file that shrinks and a
// disk that fails: here both are errors, where touching a mapping would end the process. Movable. Reading is
// safe from any number of threads.
class FileReader {
 public:
  // InvalidArgument: `path` is not a regular file. Otherwise the code of FileError; the message names the
  // path.
  static absl::StatusOr<FileReader> Open(const std::string& path);

  FileReader(FileReader&& other) noexcept;
  FileReader& operator=(FileReader&& other) noexcept;
  ~FileReader();

  const std::string& path() const { return path_; }
  // When it was opened.
  int64_t bytes() const { return bytes_; }

  // Fills `to` with the bytes from `offset` on. Blocks.
  // Errors; `to` then holds no defined values: OutOfRange, the file ends before; otherwise the code of
  // FileError (Unavailable: the disk fails).
  absl::Status Read(int64_t offset, absl::Span<std::byte> to) const;

 private:
  FileReader(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_ = -1;
  int64_t bytes_ = 0;
};

// The whole of a text file. InvalidArgument: it has more than 256 MiB; otherwise those of FileReader.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

}  // namespace medley
