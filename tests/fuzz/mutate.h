#pragma once
#include <random>
#include <string>
#include <vector>

namespace medley {

// `bytes` with one to six changes drawn from `random`: bits flipped, bytes cut, repeated, inserted or
// overwritten, integers of 1 to 8 bytes set to extremes, numbers and punctuation of texts replaced, a part of
// one of `others` put in. At most 64 KiB.
std::string Mutate(std::string bytes, const std::vector<std::string>& others, std::mt19937_64& random);

}  // namespace medley
