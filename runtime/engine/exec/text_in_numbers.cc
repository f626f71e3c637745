#include "runtime/engine/exec/text_in_numbers.h"

#include <cstdint>

namespace medley {
namespace {

constexpr size_t kBytesPerNumber = 4;  // 32 bits are exact in a double

}  // namespace

std::vector<double> NumbersOfText(std::string_view text) {
  std::vector<double> numbers(kMostBytesOfText / kBytesPerNumber + 1);
  text = text.substr(0, kMostBytesOfText);
  numbers.back() = static_cast<double>(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    numbers[i / kBytesPerNumber] +=
        static_cast<double>(uint32_t{static_cast<uint8_t>(text[i])} << (8 * (i % kBytesPerNumber)));
  }
  return numbers;
}

std::string TextOfNumbers(const std::vector<double>& numbers) {
  std::string text(static_cast<size_t>(numbers.back()), '\0');
  for (size_t i = 0; i < text.size(); ++i) {
    text[i] =
        static_cast<char>(static_cast<uint32_t>(numbers[i / kBytesPerNumber]) >> (8 * (i % kBytesPerNumber)));
  }
  return text;
}

}  // namespace medley
