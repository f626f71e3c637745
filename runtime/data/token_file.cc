#include "runtime/data/token_file.h"

#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

constexpr int32_t kLlmCMagic = 20240520;
constexpr int32_t kLlmCWideMagic = 20240801;  // 32-bit ids of the Llama 3 tokenizer
constexpr int32_t kLlmCVersion = 1;
constexpr size_t kLlmCHeaderBytes = 256 * sizeof(int32_t);

int32_t Int32At(absl::Span<const std::byte> bytes, size_t index) {
  int32_t value;
  std::memcpy(&value, bytes.data() + index * sizeof(value), sizeof(value));
  return value;
}

absl::Status Invalid(const MappedFile& file, const std::string& cause) {
  return absl::InvalidArgumentError(absl::StrCat(file.path(), ": ", cause));
}

absl::StatusOr<TokenFormat> Detect(const MappedFile& file) {
  if (absl::EndsWith(file.path(), ".txt")) return TokenFormat::kText;
  if (file.bytes().size() < sizeof(int32_t)) return TokenFormat::kUint16;
  const int32_t first = Int32At(file.bytes(), 0);
  if (first == kLlmCMagic) return TokenFormat::kLlmC;
  // Read as raw 16-bit ids this would be valid nonsense: every second token 0.
  if (first == kLlmCWideMagic) {
    return Invalid(file, absl::StrCat("llm.c file of 32-bit tokens (magic ", kLlmCWideMagic,
                                      "); 16-bit files (magic ", kLlmCMagic, ") are read"));
  }
  return TokenFormat::kUint16;
}

absl::StatusOr<int64_t> CountLlmC(const MappedFile& file) {
  const absl::Span<const std::byte> bytes = file.bytes();
  if (bytes.size() < kLlmCHeaderBytes) {
    return Invalid(
        file, absl::StrCat("truncated llm.c header: ", bytes.size(), " of ", kLlmCHeaderBytes, " bytes"));
  }
  if (Int32At(bytes, 0) != kLlmCMagic) {
    return Invalid(file,
                   absl::StrCat("llm.c magic number is ", Int32At(bytes, 0), ", should be ", kLlmCMagic));
  }
  if (Int32At(bytes, 1) != kLlmCVersion) {
    return Invalid(file, absl::StrCat("llm.c version is ", Int32At(bytes, 1), ", should be ", kLlmCVersion));
  }
  const int64_t count = Int32At(bytes, 2);
  const int64_t data_bytes = static_cast<int64_t>(bytes.size() - kLlmCHeaderBytes);
  if (count * 2 != data_bytes) {
    return Invalid(file, absl::StrCat("llm.c header counts ", count, " tokens (", count * 2, " bytes), but ",
                                      data_bytes, " bytes follow it"));
  }
  return count;
}

absl::StatusOr<int64_t> Count(const MappedFile& file, TokenFormat format) {
  const int64_t bytes = static_cast<int64_t>(file.bytes().size());
  if (format == TokenFormat::kLlmC) return CountLlmC(file);
  if (format == TokenFormat::kText) return bytes;
  if (bytes % 2 != 0)
    return Invalid(file, absl::StrCat("odd length ", bytes, " bytes; 16-bit tokens take two each"));
  return bytes / 2;
}

}  // namespace

absl::StatusOr<TokenFile> TokenFile::Open(const std::string& path, TokenFormat format, int vocabulary) {
  if (vocabulary < 1) {
    return absl::InvalidArgumentError(absl::StrCat("vocabulary is ", vocabulary, ", must be at least 1"));
  }
  ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  if (file.bytes().empty()) return Invalid(file, "empty");
  if (format == TokenFormat::kAutomatic) {
    ASSIGN_OR_RETURN(format, Detect(file));
  }
  ASSIGN_OR_RETURN(const int64_t tokens, Count(file, format));
  if (tokens == 0) return Invalid(file, "no tokens");
  return TokenFile(std::move(file), format, vocabulary, tokens);
}

absl::Status TokenFile::Read(int64_t position, absl::Span<int32_t> ids) const {
  const int64_t count = static_cast<int64_t>(ids.size());
  if (position < 0 || count > tokens_ || position > tokens_ - count) {
    return absl::OutOfRangeError(absl::StrCat(path(), ": tokens ", position, " to ", position + count,
                                              " asked for, the file has ", tokens_));
  }
  RETURN_IF_ERROR(file_.CheckNotShrunk());
  const std::byte* data = file_.bytes().data() + (format_ == TokenFormat::kLlmC ? kLlmCHeaderBytes : 0);
  for (int64_t i = 0; i < count; ++i) {
    int32_t id;
    if (format_ == TokenFormat::kText) {
      id = std::to_integer<int32_t>(data[position + i]);
    } else {
      uint16_t wide;
      std::memcpy(&wide, data + (position + i) * 2, sizeof(wide));
      id = wide;
    }
    if (id >= vocabulary_) {
      return absl::InvalidArgumentError(absl::StrCat(path(), ": token ", id, " at position ", position + i,
                                                     " is outside the vocabulary of ", vocabulary_));
    }
    ids[i] = id;
  }
  return absl::OkStatus();
}

}  // namespace medley
