#include "runtime/base/files/file_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/files/file_error.h"
#include "runtime/base/progress.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr size_t kLargestRead = size_t{1} << 20;
constexpr int64_t kLargestText = int64_t{256} << 20;

}  // namespace

absl::StatusOr<FileReader> FileReader::Open(const std::string& path) {
  // O_NONBLOCK: a named pipe is refused below instead of waited for.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return FileError(errno, "open", path);
  FileReader reader(path, descriptor);
  struct stat status;
  if (fstat(descriptor, &status) != 0) return FileError(errno, "stat", path);
  if (!S_ISREG(status.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  reader.bytes_ = status.st_size;
  return reader;
}

FileReader::FileReader(FileReader&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      bytes_(other.bytes_) {}

FileReader& FileReader::operator=(FileReader&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

FileReader::~FileReader() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::Status FileReader::Read(int64_t offset, absl::Span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t n = pread(descriptor_, to.data(), std::min(to.size(), kLargestRead), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError(errno, "read", path_);
    if (n == 0) {
      return absl::OutOfRangeError(
          absl::StrCat(path_, ": ends before byte ", offset + to.size(), ", which is to be read"));
    }
    Progress::OfProcess().Add();
    offset += n;
    to.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  ASSIGN_OR_RETURN(const FileReader reader, FileReader::Open(path));
  if (reader.bytes() > kLargestText) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": has ", reader.bytes(), " bytes, at most ", kLargestText, " are read"));
  }
  std::string text(static_cast<size_t>(reader.bytes()), '\0');
  RETURN_IF_ERROR(reader.Read(0, {reinterpret_cast<std::byte*>(text.data()), text.size()}));
  return text;
}

}  // namespace medley
