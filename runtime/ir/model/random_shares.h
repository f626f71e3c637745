#pragma once
#include <random>
#include <vector>

#include "runtime/ir/model/model_share.h"

// Valid shares of a model for tests.
namespace medley {

// Cuts [0, `size`) into `parts` that are not empty; 1 to `size` of them.
std::vector<IndexRange> RandomCut(std::mt19937_64& random, int size, int parts);

// What `degree` ranks of a unit have, up to as many as there are heads: of each thing as many as fall to a rank by chance,
// at least one. More ranks than key-value heads share these, and some of fewer do.
std::vector<ModelShare> RandomShares(std::mt19937_64& random, const ModelConfig& model, int degree);

}  // namespace medley
