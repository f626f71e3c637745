#include "runtime/engine/align/file_parts.h"

#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/base/files/atomic_file.h"
#include "runtime/base/files/file_error.h"
#include "runtime/base/files/strict_json.h"
#include "runtime/base/files/write_all.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

static_assert(std::endian::native == std::endian::little, "these files are little-endian");

using nlohmann::json;

constexpr char kMagic[8] = {'M', 'E', 'D', 'L', 'E', 'Y', 'O', 'P'};
constexpr uint32_t kVersion = 1;
constexpr uint32_t kLongestHeader = 16u << 20;

struct Prefix {
  char magic[8];
  uint32_t version;
  uint32_t header_bytes;
  uint64_t header_xxh3;
};
static_assert(sizeof(Prefix) == 24);

absl::Status Malformed(const std::string& what) { return absl::InvalidArgumentError(what); }

uint64_t HashOf(absl::Span<const std::byte> bytes) { return DigestOf(bytes).xxh3; }

absl::StatusOr<json> DecodeHeader(absl::Span<const std::byte> file, Prefix& prefix) {
  if (file.size() < sizeof(Prefix)) return Malformed("shorter than the 24 bytes that every file begins with");
  std::memcpy(&prefix, file.data(), sizeof(prefix));
  if (std::memcmp(prefix.magic, kMagic, sizeof(kMagic)) != 0)
    return Malformed("does not begin with MEDLEYOP");
  if (prefix.version != kVersion) {
    return Malformed(absl::StrCat("version ", prefix.version, ", must be ", kVersion));
  }
  if (prefix.header_bytes > kLongestHeader || prefix.header_bytes > file.size() - sizeof(Prefix)) {
    return Malformed(absl::StrCat("a header of ", prefix.header_bytes,
                                  " B, must be inside the file and at most ", kLongestHeader));
  }
  const absl::Span<const std::byte> text = file.subspan(sizeof(Prefix), prefix.header_bytes);
  if (HashOf(text) != prefix.header_xxh3) return absl::DataLossError("the header's checksum is wrong");
  return ParseStrictJson({reinterpret_cast<const char*>(text.data()), text.size()});
}

absl::Status WritePart(int descriptor, absl::Span<const std::byte> bytes, const std::string& path) {
  const int error = WriteAll(descriptor, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  return error == 0 ? absl::OkStatus() : FileError(error, "writing", path);
}

}  // namespace

FileParts EncodeParts(json header, std::vector<absl::Span<const std::byte>> bodies) {
  for (size_t i = 0; i < bodies.size(); ++i) {
    header["tensors"][i]["bytes"] = bodies[i].size();
    header["tensors"][i]["xxh3"] = HashOf(bodies[i]);
  }
  const std::string text = header.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
  FileParts parts{.bodies = std::move(bodies)};
  parts.head.resize(sizeof(Prefix) + text.size());
  Prefix prefix{.version = kVersion, .header_bytes = static_cast<uint32_t>(text.size())};
  std::memcpy(prefix.magic, kMagic, sizeof(kMagic));
  std::memcpy(parts.head.data() + sizeof(Prefix), text.data(), text.size());
  prefix.header_xxh3 = HashOf(absl::MakeSpan(parts.head).subspan(sizeof(Prefix)));
  std::memcpy(parts.head.data(), &prefix, sizeof(Prefix));
  return parts;
}

absl::StatusOr<DecodedParts> DecodeParts(absl::Span<const std::byte> file) {
  Prefix prefix;
  DecodedParts parts;
  ASSIGN_OR_RETURN(parts.header, DecodeHeader(file, prefix));
  ASSIGN_OR_RETURN(const json* tensors, Member(parts.header, "tensors"));
  if (!tensors->is_array()) return Malformed("\"tensors\" is no list");
  absl::Span<const std::byte> rest = file.subspan(sizeof(Prefix) + prefix.header_bytes);
  for (size_t i = 0; i < tensors->size(); ++i) {
    const auto where = [&](const absl::Status& status) {
      return Annotate(status, absl::StrCat("tensors[", i, "]"));
    };
    const absl::StatusOr<int64_t> bytes =
        IntegerMember((*tensors)[i], "bytes", {0, static_cast<int64_t>(rest.size())});
    if (!bytes.ok()) return where(bytes.status());
    const absl::StatusOr<uint64_t> hash = UnsignedMember((*tensors)[i], "xxh3");
    if (!hash.ok()) return where(hash.status());
    parts.bodies.push_back(rest.subspan(0, *bytes));
    if (HashOf(parts.bodies.back()) != *hash) return where(absl::DataLossError("the checksum is wrong"));
    rest.remove_prefix(*bytes);
  }
  if (!rest.empty()) return Malformed(absl::StrCat(rest.size(), " B after the last tensor"));
  return parts;
}

absl::Status WriteParts(const std::string& path, const FileParts& parts) {
  const std::string aside = absl::StrCat(path, kPartialMarker, getpid());
  const int descriptor = open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) return FileError(errno, "creating", aside);
  absl::Status status = WritePart(descriptor, parts.head, path);
  for (const absl::Span<const std::byte> body : parts.bodies) {
    if (status.ok()) status = WritePart(descriptor, body, path);
  }
  if (close(descriptor) != 0 && status.ok()) status = FileError(errno, "writing", path);
  if (status.ok() && rename(aside.c_str(), path.c_str()) != 0) status = FileError(errno, "renaming to", path);
  if (!status.ok()) unlink(aside.c_str());
  return status;
}

}  // namespace medley
