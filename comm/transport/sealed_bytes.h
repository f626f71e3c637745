#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace medley {

// What addresses look like on the wire: a magic number and a version, then a body, then a checksum of all of
// it. Little-endian, like every machine that this runs on. The checksum finds what was cut or altered by
// mistake; it is no signature.
struct SealKind {
  const char* name;  // in errors: "session address"
  uint32_t magic = 0, version = 0;
  size_t most_bytes = 0;  // of all of it
};

inline constexpr size_t kSealBytes = 16;  // that a seal adds to its body

std::string Seal(const SealKind& kind, std::string_view body);

// The body, a part of `bytes`. InvalidArgument: too long, cut, none of its kind, another version, or the
// checksum differs; says which.
absl::StatusOr<std::string_view> Unseal(const SealKind& kind, std::string_view bytes);

// "session address: <why>", InvalidArgument; for what is wrong with a body.
absl::Status RefuseSealed(const SealKind& kind, const std::string& why);

}  // namespace medley
