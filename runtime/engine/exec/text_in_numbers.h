#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace medley {

// A text as numbers that are exact when others' zeros are added to them, so that a sum over ranks brings one rank's text to all:
// of four bytes each, and its length last. Longer texts are cut.
constexpr size_t kMostBytesOfText = 1024;

// As many numbers whatever the text.
std::vector<double> NumbersOfText(std::string_view text);
std::string TextOfNumbers(const std::vector<double>& numbers);

}  // namespace medley
