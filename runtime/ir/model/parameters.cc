#include "runtime/ir/model/parameters.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "runtime/base/split_mix64.h"

namespace medley {
namespace {

constexpr float kInitialDeviation = 0.02f;

// The initial deviation of the matrices that write into the residual stream.
float ResidualDeviation(const ModelConfig& config) {
  return kInitialDeviation / std::sqrt(2.0f * static_cast<float>(config.layers));
}

ParameterSpec Vector(std::string name, int64_t size, Initialisation initialisation,
                     TensorCut cut = TensorCut::kNone) {
  return {.name = std::move(name),
          .shape = {size},
          .elements = size,
          .initialisation = initialisation,
          .cut = cut};
}

// Which axis of a matrix its cut is at.
enum Axis : int { kRows, kColumns };

ParameterSpec Matrix(std::string name, int64_t rows, int64_t columns, float deviation,
                     TensorCut cut = TensorCut::kNone, Axis axis = kRows) {
  return {.name = std::move(name),
          .shape = {rows, columns},
          .elements = rows * columns,
          .decays = true,
          .initialisation = Initialisation::kNormal,
          .standard_deviation = deviation,
          .cut = cut,
          .cut_axis = axis};
}

// A linear map from `inputs`, of which `cut` is the wider axis; with `into_layer`, that of its outputs.
void AppendLinear(const ModelConfig& c, const std::string& name, const NamedCut& part, bool into_layer,
                  std::vector<ParameterSpec>& out) {
  const Family& family = FamilyOf(c);
  const int64_t width = WidthOf(c, part.cut), inputs = into_layer ? c.hidden : width,
                outputs = into_layer ? width : c.hidden;
  const bool in_out = family.weights == WeightOrder::kInOut;
  out.push_back(Matrix(name + ".weight", in_out ? inputs : outputs, in_out ? outputs : inputs,
                       into_layer ? kInitialDeviation : ResidualDeviation(c), part.cut,
                       in_out == into_layer ? kColumns : kRows));
  if (!family.has_biases) return;
  out.push_back(
      Vector(name + ".bias", outputs, Initialisation::kZero, into_layer ? part.cut : TensorCut::kNone));
}

void AppendNorm(const ModelConfig& c, const std::string& name, std::vector<ParameterSpec>& out) {
  out.push_back(Vector(name + ".weight", c.hidden, Initialisation::kOne));
  if (HasBias(FamilyOf(c).norm)) out.push_back(Vector(name + ".bias", c.hidden, Initialisation::kZero));
}

// What goes into a branch's core lies one after another: it is one matrix to the layer.
void AppendLayer(const ModelConfig& c, LayerId layer, std::vector<ParameterSpec>& out) {
  const Family& family = FamilyOf(c);
  const std::string prefix = absl::StrCat(family.layers, ".", layer.value(), ".");
  for (const BranchKind& branch : family.branches) {
    AppendNorm(c, prefix + branch.norm, out);
    for (const NamedCut& part : branch.in) AppendLinear(c, prefix + part.name, part, true, out);
    AppendLinear(c, prefix + branch.out.name, branch.out, false, out);
  }
}

int64_t LayerElements(const ModelConfig& c) {
  const Family& family = FamilyOf(c);
  const int64_t C = c.hidden, bias = family.has_biases ? 1 : 0;
  int64_t elements = 0;
  for (const BranchKind& branch : family.branches) {
    elements += C * (HasBias(family.norm) ? 2 : 1) + InnerWidth(c, branch) * (C + bias) +
                (CoreWidth(c, branch) + bias) * C;
  }
  return elements;
}

uint64_t Fnv1a(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const unsigned char c : text) hash = (hash ^ c) * 0x100000001b3ull;
  return hash;
}

}  // namespace

OuterNames OuterNamesOf(const ModelConfig& config) {
  const Family& family = FamilyOf(config);
  const auto weight = [](absl::string_view name) {
    return name.empty() ? "" : absl::StrCat(name, ".weight");
  };
  return {weight(family.token_embedding), weight(family.position_embedding), weight(family.final_norm),
          HasBias(family.norm) ? absl::StrCat(family.final_norm, ".bias") : "",
          weight(config.tied_head ? family.token_embedding : family.head)};
}

std::vector<ParameterSpec> SegmentParameters(const ModelConfig& config, SegmentId segment) {
  std::vector<ParameterSpec> parameters;
  const OuterNames names = OuterNamesOf(config);
  const BlockId block = BlockOfSegment(segment);
  const auto vocabulary_matrix = [&](const std::string& name) {
    return Matrix(name, config.vocabulary, config.hidden, kInitialDeviation, TensorCut::kVocabulary, kRows);
  };
  if (segment == kTiedSegment) {
    if (config.tied_head) parameters.push_back(vocabulary_matrix(names.token_embedding));
  } else if (block == config.embedding_block()) {
    if (!config.tied_head) parameters.push_back(vocabulary_matrix(names.token_embedding));
    if (!names.position_embedding.empty()) {
      parameters.push_back(
          Matrix(names.position_embedding, config.context, config.hidden, kInitialDeviation));
    }
  } else if (block == config.head_block()) {
    AppendNorm(config, FamilyOf(config).final_norm, parameters);
    if (!config.tied_head) parameters.push_back(vocabulary_matrix(names.head));
  } else {
    AppendLayer(config, LayerOfBlock(block), parameters);
  }
  return parameters;
}

int64_t SegmentElements(const ModelConfig& c, SegmentId segment) {
  const Family& family = FamilyOf(c);
  const int64_t C = c.hidden, untied = c.tied_head ? 0 : c.vocabulary * C;
  const BlockId block = BlockOfSegment(segment);
  if (segment == kTiedSegment) return c.tied_head ? c.vocabulary * C : 0;
  if (block == c.embedding_block())
    return untied + (family.positions == PositionKind::kLearned ? c.context * C : 0);
  if (block == c.head_block()) return untied + C * (HasBias(family.norm) ? 2 : 1);
  return LayerElements(c);
}

bool Holds(absl::Span<const BlockRange> chunks, BlockId block) {
  return std::any_of(chunks.begin(), chunks.end(),
                     [&](const BlockRange& range) { return range.contains(block); });
}

bool HoldsSegment(const ModelConfig& config, absl::Span<const BlockRange> chunks, SegmentId segment) {
  if (segment != kTiedSegment) return Holds(chunks, BlockOfSegment(segment));
  return Holds(chunks, config.embedding_block()) || Holds(chunks, config.head_block());
}

bool HoldsAny(const ModelConfig& config, absl::Span<const BlockRange> chunks, SegmentId first,
              SegmentId end) {
  for (SegmentId segment = first; segment < end; ++segment) {
    if (HoldsSegment(config, chunks, segment)) return true;
  }
  return false;
}

std::vector<SegmentId> SegmentsOf(const ModelConfig& config, absl::Span<const BlockRange> chunks) {
  std::vector<SegmentId> segments;
  if (HoldsSegment(config, chunks, kTiedSegment)) segments.push_back(kTiedSegment);
  for (const BlockRange& range : chunks) {
    for (BlockId block = range.first; block < range.end; ++block) segments.push_back(SegmentOfBlock(block));
  }
  return segments;
}

int64_t MultipliedElements(const ModelConfig& c, absl::Span<const BlockRange> chunks) {
  int64_t of_layer = 0, elements = 0;
  for (const BranchKind& branch : FamilyOf(c).branches)
    of_layer += c.hidden * (InnerWidth(c, branch) + CoreWidth(c, branch));
  for (const BlockRange& range : chunks) {
    for (BlockId block = range.first; block < range.end; ++block) {
      if (block == c.head_block()) {
        elements += int64_t{c.vocabulary} * c.hidden;
      } else if (block != c.embedding_block()) {
        elements += of_layer;
      }
    }
  }
  return elements;
}

int64_t ModelElements(const ModelConfig& config) {
  int64_t elements = 0;
  for (SegmentId segment = 0; segment < SegmentCount(config); ++segment)
    elements += SegmentElements(config, segment);
  return elements;
}

const PlacedParameter* ParameterLayout::Find(const std::string& name) const {
  for (const PlacedParameter& placed : parameters) {
    if (placed.spec.name == name) return &placed;
  }
  return nullptr;
}

ParameterLayout LayoutOf(const ModelConfig& config, absl::Span<const BlockRange> chunks) {
  ParameterLayout layout;
  for (const SegmentId segment : SegmentsOf(config, chunks)) {
    layout.segments.push_back(segment);
    layout.segment_offsets.push_back(layout.elements);
    for (ParameterSpec& spec : SegmentParameters(config, segment)) {
      const int64_t elements = spec.elements;
      layout.parameters.push_back({std::move(spec), segment, layout.elements});
      layout.elements += elements;
    }
  }
  return layout;
}

void InitialiseParameter(const ParameterSpec& spec, uint64_t seed, float* values) {
  InitialiseElements(spec, seed, 0, absl::MakeSpan(values, spec.elements));
}

void InitialiseElements(const ParameterSpec& spec, uint64_t seed, int64_t first, absl::Span<float> values) {
  if (spec.initialisation != Initialisation::kNormal) {
    std::fill(values.begin(), values.end(), spec.initialisation == Initialisation::kOne ? 1.0f : 0.0f);
    return;
  }
  const uint64_t stream = SplitMix64(Fnv1a(spec.name) ^ SplitMix64(seed));
  const int64_t count = static_cast<int64_t>(values.size());
  for (int64_t i = 0; i < count; i += 2) {
    const uint64_t a = SplitMix64(stream + static_cast<uint64_t>(first + i));
    const uint64_t b = SplitMix64(stream + static_cast<uint64_t>(first + i) + 1);
    const double uniform = (static_cast<double>(a >> 11) + 1.0) * 0x1.0p-53;  // (0, 1]
    const double angle = 2.0 * std::numbers::pi * static_cast<double>(b >> 11) * 0x1.0p-53;
    const double radius = std::sqrt(-2.0 * std::log(uniform)) * spec.standard_deviation;
    values[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < count) values[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

}  // namespace medley
