#include "runtime/engine/shard/rotary.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace medley {
namespace {

ModelConfig Llama(int head_size) {
  return {
      .layers = 1, .hidden = 2 * head_size, .heads = 2, .family = ModelFamily::kLlama, .rotary_base = 500000};
}

double AngleOf(const RotaryAngles& angles, int pairs, int position, int pair) {
  const size_t i = static_cast<size_t>(position * pairs + pair);
  return std::atan2(angles.sine[i], angles.cosine[i]);
}

TEST_CASE("the first pair turns by one radian a position, the others slower and slower") {
  const RotaryAngles angles = RotaryAnglesOf(Llama(8), 4);
  REQUIRE(angles.cosine.size() == 16);
  for (int position = 0; position < 4; ++position)
    CHECK(AngleOf(angles, 4, position, 0) == Approx(position).margin(1e-6));
  for (int pair = 0; pair < 4; ++pair) {
    CHECK(AngleOf(angles, 4, 1, pair) == Approx(std::pow(500000.0, -pair / 4.0)).epsilon(1e-5));
  }
}

TEST_CASE("Llama 3.1's scaling keeps short wavelengths, divides long ones and blends those between") {
  ModelConfig config = Llama(128);
  const RotaryAngles plain = RotaryAnglesOf(config, 2);
  config.rotary_scaling = RotaryScaling{};
  const RotaryAngles scaled = RotaryAnglesOf(config, 2);
  int kept = 0, divided = 0, blended = 0;
  double previous = 1;
  for (int pair = 0; pair < 64; ++pair) {
    const double frequency = AngleOf(plain, 64, 1, pair), wavelength = 2 * M_PI / frequency;
    const double ratio = AngleOf(scaled, 64, 1, pair) / frequency;
    CAPTURE(pair, wavelength, ratio);
    if (wavelength < 8192 / 4.0) {
      CHECK(ratio == Approx(1).epsilon(1e-6));
      ++kept;
    } else if (wavelength > 8192) {
      CHECK(ratio == Approx(1 / 8.0).epsilon(1e-5));
      ++divided;
    } else {
      CHECK((ratio < previous + 1e-6 && ratio > 1 / 8.0));
      ++blended;
    }
    previous = ratio;
  }
  CHECK((kept > 0 && divided > 0 && blended > 0));
}

}  // namespace
}  // namespace medley
