#include "runtime/base/f16.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

namespace medley {
namespace {

TEST_CASE("every f16 is itself again") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = FromF16(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      CHECK(std::isnan(FromF16(ToF16(value))));
    } else if (ToF16(value) != bits) {
      CAPTURE(bits, value);
      FAIL("became another");
    }
  }
}

TEST_CASE("what lies between two f16 goes to the nearer one, from the middle to the even one") {
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const double low = FromF16(static_cast<uint16_t>(bits)), high = FromF16(static_cast<uint16_t>(bits + 1));
    const float middle = static_cast<float>((low + high) / 2);
    const float below = std::nextafter(middle, 0.0f), above = std::nextafter(middle, 1e9f);
    const bool right = ToF16(below) == bits && ToF16(above) == bits + 1 && ToF16(middle) == bits + bits % 2 &&
                       ToF16(-middle) == (0x8000 | (bits + bits % 2));
    if (right) continue;
    CAPTURE(bits, middle);
    FAIL("went elsewhere");
  }
}

TEST_CASE("known values: the largest, what is beyond it, the least, nothing") {
  CHECK(FromF16(0x3c00) == 1.0f);
  CHECK(FromF16(0x7bff) == 65504.0f);
  CHECK(FromF16(0x0001) == 0x1p-24f);
  CHECK(FromF16(0xc000) == -2.0f);
  CHECK(ToF16(65519.0f) == 0x7bff);
  CHECK(ToF16(65520.0f) == 0x7c00);
  CHECK(ToF16(-std::numeric_limits<float>::infinity()) == 0xfc00);
  CHECK(ToF16(0x1p-25f) == 0);
  CHECK(ToF16(1e-40f) == 0);
  CHECK(std::signbit(FromF16(ToF16(-0.0f))));
}

}  // namespace
}  // namespace medley
