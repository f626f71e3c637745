#pragma once
#include <vector>

#include "runtime/ir/model/model_config.h"

namespace medley {

// [sequence, size_of_head / 2] each, row by row.
struct RotaryAngles {
  std::vector<float> cosine, sine;
};

// Cosines and sines of the rotary embedding of `config` (a Llama): position s turns the i-th pair of a head
// by s * frequency(i), where frequency(i) = rotary_base^(-2i / size_of_head) (Su et al. 2021), stretched by
// rotary_scaling as Llama 3.1 does: long wavelengths by its factor, short ones not at all, those between
// smoothly. Computed in f64.
RotaryAngles RotaryAnglesOf(const ModelConfig& config, int sequence);

}  // namespace medley
