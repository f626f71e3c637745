#include "runtime/engine/exec/text_in_numbers.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

TEST_CASE("a text comes back from its numbers, which are as many for each, and is cut at its most bytes") {
  std::string every_byte;
  for (int byte = 0; byte < 256; ++byte) every_byte += static_cast<char>(byte);
  std::string longest;
  while (longest.size() < kMostBytesOfText) longest += every_byte;
  for (const std::string& text : {std::string(), std::string("disk full"), every_byte, longest}) {
    CAPTURE(text.size());
    const std::vector<double> numbers = NumbersOfText(text);
    CHECK(TextOfNumbers(numbers) == text);
    CHECK(numbers.size() == NumbersOfText("").size());
  }
  CHECK(TextOfNumbers(NumbersOfText(longest + "more")) == longest);
}

}  // namespace
}  // namespace medley
