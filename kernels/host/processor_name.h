#pragma once
#include <string>

namespace medley {

// "Intel(R) Xeon(R) Processor @ 2.50GHz", or "unknown processor".
std::string ProcessorName();

}  // namespace medley
