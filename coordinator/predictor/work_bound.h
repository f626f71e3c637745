#pragma once
#include "coordinator/predictor/cost_model.h"

namespace medley {

// What all devices take for a whole batch if they compute all the time, each as wide a part of the blocks and as large micro-batches, or parts of
// them, as it is fastest at, and share embedding, layers and head without loss: no plan is faster, whatever its schedule. Pure.
//
// Fractional scheduling of three kinds of work on unlike machines, by its dual: where a layer is worth 1, and head and embedding so
// much, no device earns more a second than by its best kind, and all work has to be paid. The best prices make some device indifferent between
// a layer and the head, and some between a layer and the embedding.
//
// Nor is any faster than one micro-batch, or part of one, goes through all blocks and back, each of them where that is done first, gradients
// of weights left out, which may be put off.
double WorkSeconds(const PlanningProblem& problem);

}  // namespace medley
