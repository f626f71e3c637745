#include "comm/group/group_facts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace medley {
namespace {

constexpr char kVersion = 1;
constexpr char kHostReaches = 1, kNetworkReaches = 2;
// Version and flags, then each text with its size before it.
constexpr size_t kHeadBytes = 2, kSizeBytes = 1;
constexpr size_t kDeviceBytes = 120, kLibraryBytes = 60, kIdentityBytes = 60, kObjectionBytes = 255;
static_assert(kHeadBytes + 4 * kSizeBytes + kDeviceBytes + kLibraryBytes + kIdentityBytes + kObjectionBytes <=
              kGroupFactsBytes);

void Append(const std::string& text, size_t most, std::string& bytes) {
  const size_t size = std::min(text.size(), most);
  bytes.push_back(static_cast<char>(size));
  bytes.append(text, 0, size);
}

// Takes a text from the front of `left`.
bool Take(std::string& left, std::string& text) {
  const size_t size = left.empty() ? 0 : static_cast<unsigned char>(left[0]);
  if (left.size() < kSizeBytes + size) return false;
  text = left.substr(kSizeBytes, size);
  left.erase(0, kSizeBytes + size);
  return true;
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
  std::string left = bytes.substr(kHeadBytes);
  if (!Take(left, facts.device) || !Take(left, facts.library) || !Take(left, facts.identity) ||
      !Take(left, facts.objection)) {
    return absl::InvalidArgumentError("group facts: a text is longer than the message");
  }
  return facts;
}

}  // namespace medley
