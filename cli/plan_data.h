#pragma once
#include <string>

#include "nlohmann/json.hpp"
#include "proto/medley/v1/plan.pb.h"

namespace medley {

// What the page's script reads. Texts are the report's own. Times of instructions are whole numbers of
// "tick_seconds", a power of ten that cuts the step into a thousand million or more; instructions are
// [what, micro-batch, start, length], where `what` is an index into "whats"; memory in use is [from,
// activation bytes, boundary bytes].
nlohmann::json PlanData(const std::string& title, const v1::PlanReport& report);

// `data` as one line of JSON that can stand in a <script> element: nothing in it ends the element or begins a
// comment, and it is ASCII. Bytes of texts that are no UTF-8 become U+FFFD.
std::string ScriptText(const nlohmann::json& data);

}  // namespace medley
