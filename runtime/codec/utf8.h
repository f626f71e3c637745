#pragma once
#include <string>

namespace medley {

// What a `string` field may hold.
bool IsUtf8(const std::string& text);

}  // namespace medley
