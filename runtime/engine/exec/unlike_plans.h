#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "runtime/engine/shard/parameter_arena.h"
#include "runtime/ir/plan/plan.h"

// For tests of what the ranks of a unit save and load together: models that unlike ranks can share, plans of
// units of unlike degrees, and state of which every element is known.
namespace medley {

// A GPT-2; Llamas with grouped queries, heads wider than the residual stream, a head of their own and a tied
// one. All have 5 key-value heads, 17 feed-forward columns and 13 rows of vocabulary.
std::vector<ModelConfig> ModelsToShare();

struct NamedPlan {
  std::string name;
  Plan plan;
};

// Of a model of ModelsToShare and kUnlikeBatch sequences; the first has one rank. Some shard the optimizer.
inline constexpr int kUnlikeBatch = 6, kUnlikePlans = 10;
std::vector<NamedPlan> UnlikePlans(const ModelConfig& model);

// Of an element of a whole segment; no two of a segment have the same.
float MadeUpValue(SegmentId segment, int64_t element, ParameterArena::Part part);
// Writes it into all parts but the gradients of all that the arena has of `model`.
absl::Status FillWithMadeUp(const ModelConfig& model, ParameterArena& arena);

}  // namespace medley
