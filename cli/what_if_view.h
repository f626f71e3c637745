#pragma once
#include <cstddef>
#include <string>

#include "proto/medley/v1/plan.pb.h"

namespace medley {

// Both plans' figures beside each other, as text for people. `columns`: of the terminal; 0: lines may be as long as they are.
std::string FormatWhatIf(const v1::WhatIfReport& report, size_t columns = 0);

}  // namespace medley
