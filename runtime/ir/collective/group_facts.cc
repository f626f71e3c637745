#include "runtime/ir/collective/group_facts.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/valid_utf8.h"

namespace medley {
namespace {

constexpr char kVersion = 1;
constexpr char kHostReaches = 1, kNetworkReaches = 2;
// Version and flags, then each text with its size before it; the order of slices is the last byte.
constexpr size_t kHeadBytes = 2, kSizeBytes = 1;
constexpr size_t kDeviceBytes = 120, kLibraryBytes = 60, kIdentityBytes = 60, kObjectionBytes = 255;
static_assert(kHeadBytes + 4 * kSizeBytes + kDeviceBytes + kLibraryBytes + kIdentityBytes + kObjectionBytes <
              kGroupFactsBytes);

void Append(const std::string& text, size_t most, std::string& bytes) {
  const std::string valid = ValidUtf8(text);
  const absl::string_view cut = CutUtf8(valid, most);
  bytes.push_back(static_cast<char>(cut.size()));
  bytes.append(cut.data(), cut.size());
}

// Takes a text from `bytes` at `at`, which moves behind it.
bool Take(const std::string& bytes, size_t most, size_t& at, std::string& text) {
  const size_t size = static_cast<unsigned char>(bytes[at]);
  if (size > most) return false;
  text = bytes.substr(at + kSizeBytes, size);
  at += kSizeBytes + size;
  return IsUtf8(text);
}

}  // namespace

std::string EncodeGroupFacts(const GroupFacts& facts) {
  std::string bytes = {kVersion, static_cast<char>((facts.host_reaches ? kHostReaches : 0) |
                                                   (facts.network_reaches ? kNetworkReaches : 0))};
  Append(facts.device, kDeviceBytes, bytes);
  Append(facts.library, kLibraryBytes, bytes);
  Append(facts.identity, kIdentityBytes, bytes);
  Append(facts.objection, kObjectionBytes, bytes);
  bytes.resize(kGroupFactsBytes);
  bytes.back() = static_cast<char>(facts.slice_order);
  return bytes;
}

absl::StatusOr<GroupFacts> DecodeGroupFacts(const std::string& bytes) {
  if (bytes.size() != kGroupFactsBytes)
    return absl::InvalidArgumentError(absl::StrCat("group facts: ", bytes.size(), " bytes"));
  if (bytes[0] != kVersion)
    return absl::InvalidArgumentError(absl::StrCat("group facts: version ", static_cast<int>(bytes[0])));
  if ((bytes[1] & ~(kHostReaches | kNetworkReaches)) != 0)
    return absl::InvalidArgumentError(absl::StrCat("group facts: flags ", static_cast<int>(bytes[1])));
  GroupFacts facts;
  facts.host_reaches = (bytes[1] & kHostReaches) != 0;
  facts.network_reaches = (bytes[1] & kNetworkReaches) != 0;
  facts.slice_order = static_cast<unsigned char>(bytes.back());
  size_t at = kHeadBytes;
  if (!Take(bytes, kDeviceBytes, at, facts.device) || !Take(bytes, kLibraryBytes, at, facts.library) ||
      !Take(bytes, kIdentityBytes, at, facts.identity) ||
      !Take(bytes, kObjectionBytes, at, facts.objection)) {
    return absl::InvalidArgumentError("group facts: a text is too long, or none");
  }
  return facts;
}

}  // namespace medley
