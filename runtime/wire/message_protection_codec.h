#pragma once
#include "proto/medley/v1/message_protection.pb.h"
#include "runtime/ir/link/message_protection.h"

namespace medley {

// Unspecified, and what a newer version may know beside: none.
inline MessageProtection DecodeMessageProtection(v1::MessageProtection protection) {
  switch (protection) {
    case v1::MESSAGE_PROTECTION_CHECKSUM:
      return MessageProtection::kChecksum;
    case v1::MESSAGE_PROTECTION_ENCRYPTION:
      return MessageProtection::kEncryption;
    default:
      return MessageProtection::kNone;
  }
}

inline v1::MessageProtection EncodeMessageProtection(MessageProtection protection) {
  switch (protection) {
    case MessageProtection::kNone:
      return v1::MESSAGE_PROTECTION_NONE;
    case MessageProtection::kChecksum:
      return v1::MESSAGE_PROTECTION_CHECKSUM;
    case MessageProtection::kEncryption:
      return v1::MESSAGE_PROTECTION_ENCRYPTION;
  }
  return v1::MESSAGE_PROTECTION_UNSPECIFIED;
}

}  // namespace medley
