#pragma once
#include <array>
#include <cstdint>

#include "absl/types/span.h"
#include "runtime/ir/model/model_config.h"

// What a family of models is made of, as a table: the tensors, the passes, what they keep and what they
// compute follow from it. A new family is a new table.
//
// A layer is a row of *branches*, each of which adds to the residual stream:
//   y = x + out(core(in(norm(x)))),
// where `in` and `out` are linear maps of rows. The ranks of a unit share a branch by what its core has
// (heads, feed-forward columns): `in` makes a rank's own part, and what `out` makes of it is summed.
namespace medley {

// What the indices along one axis of a tensor belong to, so that the ranks of a unit can share it
// (model_share.h).
enum class TensorCut : uint8_t {
  kNone,  // every rank holds all of it
  kQueryHeads,
  kKeyValueHeads,
  kJoinedHeads,  // queries, keys and values one after another
  kFeedForward,
  kVocabulary,
};

enum class NormKind : uint8_t {
  kLayerNorm,  // weight and bias; keeps mean and rstd of a row
  kRmsNorm,    // weight; keeps rstd
};

enum class PositionKind : uint8_t {
  kLearned,  // an embedding that is added to the tokens'
  kRotary,   // turns queries and keys (rotary.h)
};

// How the matrix of a linear map is stored.
enum class WeightOrder : uint8_t { kInOut, kOutIn };

// What stands between the two linear maps of a branch.
enum class CoreKind : uint8_t {
  kAttention,  // of the queries, keys and values that `in` makes; its output is kept
  kGelu,       // its output is made again in backward
  kSwiGlu,     // of gate and up; likewise
};

struct NamedCut {
  const char* name;  // without ".weight" and ".bias"
  TensorCut cut;     // of its wider axis
};

struct BranchKind {
  CoreKind core;
  const char* norm;
  absl::Span<const NamedCut> in;  // side by side: one linear map; with biases, one
  NamedCut out;
};

constexpr int kBranches = 2;  // of a layer: attention, MLP

struct Family {
  const char* name;  // "gpt2", in texts and files
  NormKind norm;
  PositionKind positions;
  WeightOrder weights;
  bool has_biases;     // of the linear maps
  const char* layers;  // a layer's tensors are "<layers>.<number>.<name>"
  std::array<BranchKind, kBranches> branches;
  const char* token_embedding;
  const char* position_embedding;  // empty: none
  const char* final_norm;
  const char* head;  // where it is not the token embedding; empty: it always is
};

const Family& FamilyOf(ModelFamily family);
inline const Family& FamilyOf(const ModelConfig& config) { return FamilyOf(config.family); }

// Indices of a whole axis of `config` that is cut so; not of kNone.
int64_t WidthOf(const ModelConfig& config, TensorCut cut);

// Columns that `in` makes of a row.
int64_t InnerWidth(const ModelConfig& config, const BranchKind& branch);
// Columns that `out` takes of a row.
inline int64_t CoreWidth(const ModelConfig& config, const BranchKind& branch) {
  return WidthOf(config, branch.out.cut);
}

inline bool HasBias(NormKind norm) { return norm == NormKind::kLayerNorm; }

}  // namespace medley
