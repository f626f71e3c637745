#include "runtime/engine/shard/rotary.h"

#include <cmath>
#include <numbers>

namespace medley {
namespace {

double Stretched(double frequency, const RotaryScaling& scaling) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  const double longest_kept = scaling.original_context / double{scaling.high_frequency_factor};
  const double shortest_divided = scaling.original_context / double{scaling.low_frequency_factor};
  if (wavelength < longest_kept) return frequency;
  if (wavelength > shortest_divided) return frequency / scaling.factor;
  const double smooth = (scaling.original_context / wavelength - scaling.low_frequency_factor) /
                        (double{scaling.high_frequency_factor} - scaling.low_frequency_factor);
  return (1 - smooth) * frequency / scaling.factor + smooth * frequency;
}

}  // namespace

RotaryAngles RotaryAnglesOf(const ModelConfig& config, int sequence) {
  const int size = config.size_of_head();
  RotaryAngles angles;
  for (int position = 0; position < sequence; ++position) {
    for (int i = 0; i < size / 2; ++i) {
      double frequency = std::pow(double{config.rotary_base}, -2.0 * i / size);
      if (config.rotary_scaling) frequency = Stretched(frequency, *config.rotary_scaling);
      angles.cosine.push_back(static_cast<float>(std::cos(position * frequency)));
      angles.sine.push_back(static_cast<float>(std::sin(position * frequency)));
    }
  }
  return angles;
}

}  // namespace medley
