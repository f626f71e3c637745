#pragma once
#include <string>

#include "proto/medley/v1/plan.pb.h"

namespace medley {

// A page that shows a plan in any browser, in one text that refers to nothing outside: what is predicted and
// why, who does what when (as far as report.predicted_step says), memory over time and in parts, and other plans.
// `title`: of what the plan is. Nothing that the report says is taken for markup.
std::string PlanPage(const std::string& title, const v1::PlanReport& report);

}  // namespace medley
