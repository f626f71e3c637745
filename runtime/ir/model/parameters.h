#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/id.h"
#include "runtime/ir/model/family.h"
#include "runtime/ir/model/model_config.h"

// Which tensors a model has, and where they lie in the memory of who holds a range of its blocks.
//
// The unit of holding, reducing and saving is the *segment*: segment 0 is the token embedding if the first
// and the last block share it (tied), otherwise empty; segment b + 1 is what else block b has, which with a
// tied Llama is nothing for block 0. Names and shapes are Hugging Face's, so that its files are copied as
// they are.
namespace medley {

enum class Initialisation : uint8_t { kZero, kOne, kNormal };

struct ParameterSpec {
  // As Hugging Face names it, without "transformer." (GPT-2) or "model." (Llama).
  std::string name;
  std::vector<int64_t> shape;  // matrices: [in, out] as in GPT-2's Conv1D, [out, in] as in Llama's Linear
  int64_t elements = 0;
  bool decays = false;  // weight decay applies: matrices and embeddings, not biases and norms
  Initialisation initialisation = Initialisation::kZero;
  float standard_deviation = 0;  // of kNormal; 0.02, and 0.02 / sqrt(2 layers) into the residual stream
  TensorCut cut = TensorCut::kNone;
  int cut_axis = 0;  // index into shape
};

using SegmentId = Id<struct SegmentTag>;  // as numbered above

constexpr SegmentId kTiedSegment = 0;
inline SegmentId SegmentOfBlock(BlockId block) { return block + 1; }
inline BlockId BlockOfSegment(SegmentId segment) { return segment - 1; }  // of any but the tied one
inline bool IsLayer(const ModelConfig& config, SegmentId segment) {
  return segment != kTiedSegment && config.is_layer(BlockOfSegment(segment));
}
inline int SegmentCount(const ModelConfig& config) { return config.blocks() + 1; }

// The tensors outside the layers, by what they do; empty: the family has none.
struct OuterNames {
  std::string token_embedding, position_embedding, final_norm_weight, final_norm_bias, head;
};
OuterNames OuterNamesOf(const ModelConfig& config);

// The tensors of one segment, in the order in which they are stored.
std::vector<ParameterSpec> SegmentParameters(const ModelConfig& config, SegmentId segment);
int64_t SegmentElements(const ModelConfig& config, SegmentId segment);

// Whether one of `chunks` has `block`.
bool Holds(absl::Span<const BlockRange> chunks, BlockId block);
// Whether who has `chunks` holds `segment`: the tied one with the first or the last block.
bool HoldsSegment(const ModelConfig& config, absl::Span<const BlockRange> chunks, SegmentId segment);
// Whether they have some of the segments [first, end).
bool HoldsAny(const ModelConfig& config, absl::Span<const BlockRange> chunks, SegmentId first, SegmentId end);

// Segments that a holder of `chunks`, which ascend, holds, ascending, empty ones too: the tied one if it has
// the first or the last block, and one a block.
std::vector<SegmentId> SegmentsOf(const ModelConfig& config, absl::Span<const BlockRange> chunks);

// How many of the parameters of a holder of `chunks` are operands of matrix products: the layers' linear maps
// and the head's weight. Of these a device may keep copies for its products.
int64_t MultipliedElements(const ModelConfig& config, absl::Span<const BlockRange> chunks);

// Parameters of the whole model, the tied embedding counted once.
int64_t ModelElements(const ModelConfig& config);

struct PlacedParameter {
  ParameterSpec spec;
  SegmentId segment = 0;
  int64_t offset = 0;  // elements from the start of the holder's arena
};

// The arena of one holder: its segments one after another, ascending.
struct ParameterLayout {
  std::vector<PlacedParameter> parameters;
  std::vector<SegmentId> segments;
  std::vector<int64_t> segment_offsets;  // parallel to segments
  int64_t elements = 0;

  // Null if `name` is not held.
  const PlacedParameter* Find(const std::string& name) const;
};
ParameterLayout LayoutOf(const ModelConfig& config, absl::Span<const BlockRange> chunks);

// The value that element `index` of tensor `name` starts with under `seed`: a function of these alone, so
// that it does not depend on who holds the tensor. Normal by Box-Muller over splitmix64(FNV-1a(name) ^ seed,
// index).
void InitialiseParameter(const ParameterSpec& spec, uint64_t seed, float* values);
// The same for the elements from `first`, an even one, on that `values` has room for.
void InitialiseElements(const ParameterSpec& spec, uint64_t seed, int64_t first, absl::Span<float> values);

}  // namespace medley
