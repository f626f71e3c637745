#pragma once
#include <cstdint>

namespace medley {

// What stands between a message and whoever, or whatever, alters it on its way between hosts, as a job may ask for it
// (CommunicationSpec.message_protection). Each protects from more than the one before.
enum class MessageProtection : uint8_t {
  kNone,
  kChecksum,    // finds what is altered by mistake
  kEncryption,  // nobody on the way reads, alters, replays or reorders a message
};

// "none", "checksum", "encryption"
constexpr const char* NameOf(MessageProtection protection) {
  switch (protection) {
    case MessageProtection::kNone:
      return "none";
    case MessageProtection::kChecksum:
      return "checksum";
    case MessageProtection::kEncryption:
      return "encryption";
  }
  return "";
}

}  // namespace medley
