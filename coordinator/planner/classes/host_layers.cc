#include "coordinator/planner/classes/host_layers.h"

#include <algorithm>

#include "runtime/ir/model/parameters.h"
#include "runtime/ir/program/program.h"

namespace medley {
namespace {

constexpr double kOwnPart = 1.1;

}  // namespace

LayerCopies CopiesOf(int layers, int windows, double optimizer_share) {
  // A backward ends with the first layers in all windows, a forward with the last ones.
  const double others = layers - windows;
  // The first gradients of a backward take the windows of as many of the last ones of the backward before.
  const double gradients = std::min<double>(layers, 2 * others);
  const double moments = 2 * optimizer_share;
  return {.forward_fetched = others,
          .backward_fetched = others + gradients,
          .backward_stored = gradients,
          .end_fetched = layers * ((optimizer_share < 1 ? 1 : 0) + 2 + moments),
          .end_stored = layers * (1 + moments)};
}

bool LayersAreSummedAlone(const ModelConfig& model) {
  const SegmentId first = SegmentOfBlock(BlockOfLayer(0));
  return model.layers < 2 || CutIntoBuckets(model, first, first + 2).size() == 2;
}

double OwnShare(int replicas) { return std::min(1.0, kOwnPart / replicas); }

Bytes OptimizerBytes(Bytes whole, int windows, Bytes layer, bool layers_alone, double optimizer_share) {
  const auto part = [&](Bytes of) {
    return Bytes{static_cast<int64_t>(optimizer_share * static_cast<double>(of.value))};
  };
  const Bytes in_windows = 2 * windows * layer;
  return layers_alone ? part(whole) : part(whole - in_windows) + in_windows;
}

}  // namespace medley
