#pragma once

namespace medley {

// The version of all programs; it changes with every release.
inline constexpr const char* kMedleyVersion = "0.3";

}  // namespace medley
