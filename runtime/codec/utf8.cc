#include "runtime/codec/utf8.h"

#include <nlohmann/json.hpp>

namespace medley {

bool IsUtf8(const std::string& text) {
  try {
    (void)nlohmann::json(text).dump();  // strict
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

}  // namespace medley
