#pragma once
#include <random>
#include <string>

#include "absl/strings/str_cat.h"

namespace medley {

// What the coordinator's web server sends with calls that it makes for others, over a channel inside the process: who they are. Names may
// have any bytes, which gRPC takes where a key ends so.
inline constexpr char kCallerMetadata[] = "medley-caller-bin";
// Beside it, if they showed a certificate: until when that is in force, in whole seconds since 1970.
inline constexpr char kCallerUntilMetadata[] = "medley-caller-until";
// By which both are believed: InProcessProof(). What gRPC says of where a call comes from differs between its versions.
inline constexpr char kInProcessMetadata[] = "medley-in-process";

// 256 random bits that nobody outside this process knows. Thread-safe.
inline const std::string& InProcessProof() {
  static const std::string proof = [] {
    std::random_device device;
    std::string digits;
    for (int i = 0; i < 8; ++i) absl::StrAppend(&digits, absl::Hex(device(), absl::kZeroPad8));
    return digits;
  }();
  return proof;
}

}  // namespace medley
