#pragma once
#include <string>

namespace medley {

// The shortest decimal text that reads back as `value`: "0.1", "1000000", "6e-04"; whole numbers below 1e15
// without an exponent. Infinities and NaN as YAML writes them: ".inf", "-.inf", ".nan".
std::string NumberText(double value);

}  // namespace medley
