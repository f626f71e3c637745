#pragma once
#include <cstdint>

namespace medley {

// What a unit makes again of a layer's activations before its backward, instead of keeping it from forward
// on, to the same bits. The layer's input is kept either way, and what the ends of the model keep.
enum class Recompute : uint8_t {
  kNone,
  kAllButAttention,  // attention's output is kept (selective: Korthikanti et al. 2022, section 5)
  kLayers,           // all of it (Chen et al. 2016)
};
constexpr int kRecomputes = 3;

// "none", "all but attention", "layers"
inline const char* NameOf(Recompute recompute) {
  switch (recompute) {
    case Recompute::kNone:
      break;
    case Recompute::kAllButAttention:
      return "all but attention";
    case Recompute::kLayers:
      return "layers";
  }
  return "none";
}

}  // namespace medley
