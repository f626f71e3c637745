#pragma once
#include <string>

#include "proto/medley/v1/coordinator.pb.h"

namespace medley {

// For each device a table of its ops: the kernels that run each, and why better ones declined. A form of an
// op has a line only where it goes another way than the plain form does in the same dtype; dtypes that go one
// way share a line. `columns`: as of FormatTable.
std::string FormatKernels(const v1::ListKernelsResponse& response, size_t columns = 0);

}  // namespace medley
