#pragma once
#include "absl/strings/string_view.h"

namespace medley {

// The kernels of kernels/portable/source as one OpenCL C program.
absl::string_view PortableSource();

}  // namespace medley
