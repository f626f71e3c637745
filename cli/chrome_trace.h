#pragma once
#include <string>

#include "proto/medley/v1/coordinator.pb.h"

namespace medley {

// A trace as chrome://tracing and Perfetto read it: a process for each device, in it a predicted and a
// measured lane for each stream that has instructions, the same names in both; times in microseconds from the
// start of the step. Instructions that were not measured (end 0) are in the predicted lane alone.
std::string ChromeTrace(const v1::Trace& trace);

}  // namespace medley
