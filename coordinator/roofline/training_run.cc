#include "coordinator/roofline/training_run.h"

namespace medley {

int TrainingRun::LayersOfChunk(int chunk) const {
  if (!chunk_layers.empty()) return chunk_layers[chunk];
  const int layers = shape.model.layers;
  return layers / Chunks() + (chunk < layers % Chunks() ? 1 : 0);
}

}  // namespace medley
