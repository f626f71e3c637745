#include "comm/transport/sealed_bytes.h"

#include <xxhash.h>

#include <cstring>

#include "absl/strings/str_cat.h"

namespace medley {
namespace {

using Checksum = uint64_t;
struct Front {
  uint32_t magic, version;
};

static_assert(sizeof(Front) + sizeof(Checksum) == kSealBytes);

}  // namespace

absl::Status RefuseSealed(const SealKind& kind, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat(kind.name, ": ", why));
}

std::string Seal(const SealKind& kind, std::string_view body) {
  const Front front{kind.magic, kind.version};
  std::string bytes(reinterpret_cast<const char*>(&front), sizeof(front));
  bytes.append(body);
  const Checksum sum = XXH64(bytes.data(), bytes.size(), /*seed=*/0);
  bytes.append(reinterpret_cast<const char*>(&sum), sizeof(sum));
  return bytes;
}

absl::StatusOr<std::string_view> Unseal(const SealKind& kind, std::string_view bytes) {
  if (bytes.size() > kind.most_bytes) {
    return RefuseSealed(kind, absl::StrCat(bytes.size(), " bytes, more than ", kind.most_bytes));
  }
  if (bytes.size() < kSealBytes) {
    return RefuseSealed(kind, absl::StrCat("cut to ", bytes.size(), " bytes"));
  }
  Front front;
  std::memcpy(&front, bytes.data(), sizeof(front));
  if (front.magic != kind.magic) return RefuseSealed(kind, "does not begin as one");
  if (front.version != kind.version) {
    return RefuseSealed(kind, absl::StrCat("version is ", front.version, ", not ", kind.version));
  }
  Checksum sum;
  std::memcpy(&sum, bytes.data() + bytes.size() - sizeof(sum), sizeof(sum));
  if (sum != XXH64(bytes.data(), bytes.size() - sizeof(sum), /*seed=*/0)) {
    return RefuseSealed(kind, "the checksum differs");
  }
  return bytes.substr(sizeof(front), bytes.size() - kSealBytes);
}

}  // namespace medley
