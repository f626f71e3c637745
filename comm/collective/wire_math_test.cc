#include "comm/collective/wire_math.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "runtime/ir/collective/wire_type.h"

namespace medley {
namespace {

// Rounded by way of the definition: the nearer of the two neighbours, the even one in the middle.
float Nearest(float value) {
  if (!std::isfinite(value)) return value;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto as_float = [](uint32_t b) { return static_cast<double>(std::bit_cast<float>(b)); };
  const uint32_t below = bits & 0xffff0000, above = below + 0x10000;
  const bool overflows = (above & 0x7f800000) == 0x7f800000;
  const double beyond = overflows ? std::copysign(0x1p128, value) : as_float(above);
  const double down = std::abs(value - as_float(below)), up = std::abs(beyond - value);
  const bool take_above = up < down || (up == down && (below & 0x10000) != 0);
  return std::bit_cast<float>(take_above ? above : below);
}

TEST_CASE("bf16 is the nearest, ties to even, at every kind of float", "[property]") {
  std::mt19937_64 random(3);
  for (int i = 0; i < 200000; ++i) {
    uint32_t bits = static_cast<uint32_t>(random());
    if (i % 4 == 0) bits = (bits & 0xffff0000) | 0x8000;  // a tie
    const float value = std::bit_cast<float>(bits);
    CAPTURE(bits);
    if (std::isnan(value)) {
      REQUIRE(std::isnan(OnWire(value, WireType::kBf16)));
    } else {
      REQUIRE(std::bit_cast<uint32_t>(OnWire(value, WireType::kBf16)) ==
              std::bit_cast<uint32_t>(Nearest(value)));
    }
  }
  for (const float value : {0.0f, -0.0f, 1.0f, std::numeric_limits<float>::infinity(), 0x1p-149f}) {
    CHECK(OnWire(OnWire(value, WireType::kBf16), WireType::kBf16) == OnWire(value, WireType::kBf16));
  }
}

TEST_CASE("the loops do what one element at a time does, wherever they begin and end") {
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  for (size_t offset = 0; offset < 5; ++offset) {
    for (const size_t count : {0, 1, 7, 16, 33, 1000}) {
      CAPTURE(offset, count);
      std::vector<float> a(offset + count + 1), b(offset + count + 1);
      for (size_t i = 0; i < a.size(); ++i) a[i] = normal(random), b[i] = normal(random);
      std::vector<uint16_t> narrow(count + 1, 0xabcd);

      std::vector<float> sum = a;
      AddFloats(sum.data() + offset, b.data() + offset, count);
      for (size_t i = 0; i < count; ++i) CHECK(sum[offset + i] == a[offset + i] + b[offset + i]);
      CHECK(sum[offset + count] == a[offset + count]);

      NarrowToBf16(narrow.data(), a.data() + offset, count);
      for (size_t i = 0; i < count; ++i) CHECK(narrow[i] == ToBf16(a[offset + i]));
      CHECK(narrow[count] == 0xabcd);

      sum = b;
      AddBf16(sum.data() + offset, narrow.data(), count);
      for (size_t i = 0; i < count; ++i) CHECK(sum[offset + i] == b[offset + i] + FromBf16(narrow[i]));

      WidenBf16(sum.data() + offset, narrow.data(), count);
      std::vector<float> rounded = a;
      std::vector<uint16_t> again(count + 1, 0xabcd);
      NarrowAndRound(again.data(), rounded.data() + offset, count);
      CHECK(again == narrow);
      for (size_t i = 0; i < count; ++i) CHECK(sum[offset + i] == rounded[offset + i]);
      CHECK(rounded[offset + count] == a[offset + count]);
    }
  }
}

}  // namespace
}  // namespace medley
