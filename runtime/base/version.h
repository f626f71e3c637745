#pragma once

namespace medley {

// Of all programs; changes with every release.
inline constexpr const char* kMedleyVersion = "0.2";

}  // namespace medley
