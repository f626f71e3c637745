#include "agent/check/writing_speed.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "runtime/base/clock.h"
#include "runtime/base/files/write_all.h"

namespace medley {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr int kPieces = 64;

absl::Status Failed(int error_number) {
  return absl::UnavailableError(absl::StrCat("cannot be written to: ", strerror(error_number)));
}

absl::Status Write(int descriptor) {
  // No zeros: some file systems do not store them.
  std::vector<char> piece(kPieceBytes);
  for (size_t i = 0; i < piece.size(); ++i) piece[i] = static_cast<char>((i * 2654435761u) >> 13);
  for (int i = 0; i < kPieces; ++i) {
    if (const int error = WriteAll(descriptor, piece); error != 0) return Failed(error);
  }
  return fsync(descriptor) == 0 ? absl::OkStatus() : Failed(errno);
}

}  // namespace

absl::StatusOr<double> WritingSpeed(const std::string& directory) {
  std::string file = directory + "/.medley-check-XXXXXX";
  const int descriptor = mkstemp(file.data());
  if (descriptor < 0) return Failed(errno);
  unlink(file.c_str());
  const absl::Time began = Now();
  const absl::Status written = Write(descriptor);
  const double seconds = absl::ToDoubleSeconds(Now() - began);
  close(descriptor);
  if (!written.ok()) return written;
  return static_cast<double>(kPieceBytes) * kPieces / std::max(seconds, 1e-9);
}

}  // namespace medley
