#include "runtime/base/files/file_fingerprint.h"

#include <xxhash.h>

#include <cstdint>
#include <vector>

#include "absl/strings/str_format.h"
#include "runtime/base/files/file_reader.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr int64_t kPieces = 64;
constexpr int64_t kPieceBytes = 4096;

}  // namespace

absl::StatusOr<std::string> FileFingerprint(const std::string& path) {
  ASSIGN_OR_RETURN(const FileReader reader, FileReader::Open(path));
  std::vector<std::byte> sampled;
  if (reader.bytes() <= kPieces * kPieceBytes) {
    sampled.resize(static_cast<size_t>(reader.bytes()));
    RETURN_IF_ERROR(reader.Read(0, absl::MakeSpan(sampled)));
  } else {
    sampled.resize(kPieces * kPieceBytes);
    for (int64_t piece = 0; piece < kPieces; ++piece) {
      // From 0 to bytes - kPieceBytes; by __int128, because the product may not fit.
      const auto offset =
          static_cast<int64_t>(static_cast<__int128>(reader.bytes() - kPieceBytes) * piece / (kPieces - 1));
      RETURN_IF_ERROR(reader.Read(offset, absl::MakeSpan(sampled).subspan(piece * kPieceBytes, kPieceBytes)));
    }
  }
  return absl::StrFormat("%d bytes hash %016x", reader.bytes(), XXH3_64bits(sampled.data(), sampled.size()));
}

}  // namespace medley
