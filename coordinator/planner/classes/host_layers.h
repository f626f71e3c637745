#pragma once
#include "runtime/base/bytes.h"
#include "runtime/ir/model/model_config.h"

namespace medley {

// What a stage whose layers live in host memory copies under 1F1B, in the parameters of so many layers: of each micro-batch in its
// forward and its backward, and at the end of a step.
struct LayerCopies {
  double forward_fetched = 0;
  double backward_fetched = 0, backward_stored = 0;  // with gradients
  double end_fetched = 0, end_stored = 0;            // for norms of sums and updates
};

// Of a stage of so many layers with fewer windows, once several micro-batches are under way. A pass finds the layers in the
// windows with which the one before it ended; forwards and backwards take turns. `optimizer_share`: of the optimizer's
// state that a holder carries; below 1 norms are of what has been summed, which is fetched once more.
LayerCopies CopiesOf(int layers, int windows, double optimizer_share);

// Whether each layer is summed with other holders by itself: small ones are summed several at once.
bool LayersAreSummedAlone(const ModelConfig& model);

// So much of the optimizer's state a replica of so many has, where they share it: shares of slices are whole elements, and
// holders of parts of them not equally many.
double OwnShare(int replicas);

// Of `whole`, which the optimizer's state of all that a rank holds takes of its device, what is left of it with such a share. Windows
// are as large as what is owned of any layer at most: all of it, where layers are not summed alone. `layer`: parameters of one, of
// the rank.
Bytes OptimizerBytes(Bytes whole, int windows, Bytes layer, bool layers_alone, double optimizer_share);

}  // namespace medley
