#include "runtime/engine/data/token_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

// What llm.c's headers say of the ids behind them.
struct LlmCKind {
  int32_t magic, version;
  int64_t token_bytes;
};
constexpr LlmCKind kLlmCKinds[] = {{20240520, 1, 2}, {20240801, 7, 4}};
constexpr size_t kLlmCHeaderBytes = 256 * sizeof(int32_t);
constexpr int kUint16Vocabulary = 65536;

int32_t Int32At(absl::Span<const std::byte> bytes, size_t index) {
  int32_t value;
  std::memcpy(&value, bytes.data() + index * sizeof(value), sizeof(value));
  return value;
}

absl::Status Invalid(const FileReader& file, const std::string& cause) {
  return absl::InvalidArgumentError(absl::StrCat(file.path(), ": ", cause));
}

// Null if `magic` is none of llm.c's.
const LlmCKind* FindLlmCKind(int32_t magic) {
  for (const LlmCKind& kind : kLlmCKinds) {
    if (kind.magic == magic) return &kind;
  }
  return nullptr;
}

TokenFormat Detect(const FileReader& file, absl::Span<const std::byte> start, int vocabulary) {
  if (absl::EndsWith(file.path(), ".txt")) return TokenFormat::kText;
  const bool has_magic = start.size() >= sizeof(int32_t);
  if (has_magic && FindLlmCKind(Int32At(start, 0)) != nullptr) return TokenFormat::kLlmC;
  return vocabulary <= kUint16Vocabulary ? TokenFormat::kUint16 : TokenFormat::kUint32;
}

template <typename Id>
int64_t Load(const std::byte* data, int64_t index) {
  Id id;
  std::memcpy(&id, data + index * static_cast<int64_t>(sizeof(id)), sizeof(id));
  return int64_t{id};
}

int64_t IdAt(const std::byte* data, int64_t token_bytes, int64_t index) {
  if (token_bytes == 1) return Load<uint8_t>(data, index);
  return token_bytes == 2 ? Load<uint16_t>(data, index) : Load<uint32_t>(data, index);
}

}  // namespace

absl::StatusOr<TokenFile::Layout> TokenFile::LlmCLayout(const FileReader& file,
                                                        absl::Span<const std::byte> bytes) {
  if (bytes.size() < kLlmCHeaderBytes) {
    return Invalid(
        file, absl::StrCat("truncated llm.c header: ", bytes.size(), " of ", kLlmCHeaderBytes, " bytes"));
  }
  const int32_t magic = Int32At(bytes, 0), version = Int32At(bytes, 1);
  const LlmCKind* kind = FindLlmCKind(magic);
  if (kind == nullptr) {
    return Invalid(file, absl::StrCat("llm.c magic number is ", magic, ", should be ", kLlmCKinds[0].magic,
                                      " or ", kLlmCKinds[1].magic));
  }
  if (version != kind->version) {
    return Invalid(file, absl::StrCat("llm.c version is ", version, ", should be ", kind->version,
                                      " with magic number ", magic));
  }
  const int64_t count = Int32At(bytes, 2), count_bytes = count * kind->token_bytes;
  const int64_t data_bytes = file.bytes() - static_cast<int64_t>(kLlmCHeaderBytes);
  if (count_bytes != data_bytes) {
    return Invalid(file, absl::StrCat("llm.c header counts ", count, " tokens (", count_bytes,
                                      " bytes), but ", data_bytes, " bytes follow it"));
  }
  return Layout{kLlmCHeaderBytes, kind->token_bytes, count};
}

absl::StatusOr<TokenFile::Layout> TokenFile::LayoutOf(const FileReader& file,
                                                      absl::Span<const std::byte> start, TokenFormat format) {
  if (format == TokenFormat::kLlmC) return LlmCLayout(file, start);
  const int64_t bytes = file.bytes();
  const int64_t token_bytes = format == TokenFormat::kText ? 1 : format == TokenFormat::kUint16 ? 2 : 4;
  if (bytes % token_bytes != 0) {
    return Invalid(file,
                   absl::StrCat(bytes, " bytes are no whole number of ", 8 * token_bytes, "-bit tokens"));
  }
  return Layout{0, token_bytes, bytes / token_bytes};
}

absl::StatusOr<TokenFile> TokenFile::Open(const std::string& path, TokenFormat format, int vocabulary) {
  if (vocabulary < 1) {
    return absl::InvalidArgumentError(absl::StrCat("vocabulary is ", vocabulary, ", must be at least 1"));
  }
  ASSIGN_OR_RETURN(FileReader file, FileReader::Open(path));
  if (file.bytes() == 0) return Invalid(file, "empty");
  std::vector<std::byte> start(static_cast<size_t>(std::min<int64_t>(file.bytes(), kLlmCHeaderBytes)));
  RETURN_IF_ERROR(file.Read(0, absl::MakeSpan(start)));
  if (format == TokenFormat::kAutomatic) format = Detect(file, start, vocabulary);
  ASSIGN_OR_RETURN(const Layout layout, LayoutOf(file, start, format));
  if (layout.tokens == 0) return Invalid(file, "no tokens");
  return TokenFile(std::move(file), format, vocabulary, layout);
}

absl::Status TokenFile::Read(int64_t position, absl::Span<int32_t> ids) const {
  const int64_t count = static_cast<int64_t>(ids.size());
  if (position < 0 || count > tokens() || position > tokens() - count) {
    return absl::OutOfRangeError(absl::StrCat(path(), ": tokens ", position, " to ", position + count,
                                              " asked for, the file has ", tokens()));
  }
  std::vector<std::byte> data(static_cast<size_t>(count * layout_.token_bytes));
  const absl::Status read = file_.Read(
      static_cast<int64_t>(layout_.header_bytes) + position * layout_.token_bytes, absl::MakeSpan(data));
  if (absl::IsOutOfRange(read)) {
    return absl::FailedPreconditionError(
        absl::StrCat(read.message(), "; it had ", file_.bytes(), " when it was opened"));
  }
  RETURN_IF_ERROR(read);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t id = IdAt(data.data(), layout_.token_bytes, i);
    if (id >= vocabulary_) {
      return absl::InvalidArgumentError(absl::StrCat(path(), ": token ", id, " at position ", position + i,
                                                     " is outside the vocabulary of ", vocabulary_));
    }
    ids[i] = static_cast<int32_t>(id);
  }
  return absl::OkStatus();
}

}  // namespace medley
