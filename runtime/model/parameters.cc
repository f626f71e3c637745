#include "runtime/model/parameters.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"

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

void AppendGpt2Layer(const ModelConfig& c, int layer, std::vector<ParameterSpec>& out) {
  const std::string h = absl::StrCat("h.", layer, ".");
  const int64_t C = c.hidden, F = c.feed_forward, H = c.attention_width(), J = c.joined_width();
  const float residual = ResidualDeviation(c);
  out.push_back(Vector(h + "ln_1.weight", C, Initialisation::kOne));
  out.push_back(Vector(h + "ln_1.bias", C, Initialisation::kZero));
  out.push_back(Matrix(h + "attn.c_attn.weight", C, J, kInitialDeviation, TensorCut::kJoinedHeads, kColumns));
  out.push_back(Vector(h + "attn.c_attn.bias", J, Initialisation::kZero, TensorCut::kJoinedHeads));
  out.push_back(Matrix(h + "attn.c_proj.weight", H, C, residual, TensorCut::kQueryHeads, kRows));
  out.push_back(Vector(h + "attn.c_proj.bias", C, Initialisation::kZero));
  out.push_back(Vector(h + "ln_2.weight", C, Initialisation::kOne));
  out.push_back(Vector(h + "ln_2.bias", C, Initialisation::kZero));
  out.push_back(Matrix(h + "mlp.c_fc.weight", C, F, kInitialDeviation, TensorCut::kFeedForward, kColumns));
  out.push_back(Vector(h + "mlp.c_fc.bias", F, Initialisation::kZero, TensorCut::kFeedForward));
  out.push_back(Matrix(h + "mlp.c_proj.weight", F, C, residual, TensorCut::kFeedForward, kRows));
  out.push_back(Vector(h + "mlp.c_proj.bias", C, Initialisation::kZero));
}

// Query, key and value lie one after another, as do gate and up: each group is one matrix to the layer.
void AppendLlamaLayer(const ModelConfig& c, int layer, std::vector<ParameterSpec>& out) {
  const std::string h = absl::StrCat("layers.", layer, ".");
  const int64_t C = c.hidden, F = c.feed_forward, D = c.size_of_head(), K = c.key_value_head_count();
  const float residual = ResidualDeviation(c);
  out.push_back(Vector(h + "input_layernorm.weight", C, Initialisation::kOne));
  out.push_back(Matrix(h + "self_attn.q_proj.weight", c.heads * D, C, kInitialDeviation,
                       TensorCut::kQueryHeads, kRows));
  out.push_back(
      Matrix(h + "self_attn.k_proj.weight", K * D, C, kInitialDeviation, TensorCut::kKeyValueHeads, kRows));
  out.push_back(
      Matrix(h + "self_attn.v_proj.weight", K * D, C, kInitialDeviation, TensorCut::kKeyValueHeads, kRows));
  out.push_back(
      Matrix(h + "self_attn.o_proj.weight", C, c.heads * D, residual, TensorCut::kQueryHeads, kColumns));
  out.push_back(Vector(h + "post_attention_layernorm.weight", C, Initialisation::kOne));
  out.push_back(Matrix(h + "mlp.gate_proj.weight", F, C, kInitialDeviation, TensorCut::kFeedForward, kRows));
  out.push_back(Matrix(h + "mlp.up_proj.weight", F, C, kInitialDeviation, TensorCut::kFeedForward, kRows));
  out.push_back(Matrix(h + "mlp.down_proj.weight", C, F, residual, TensorCut::kFeedForward, kColumns));
}

uint64_t SplitMix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

uint64_t Fnv1a(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const unsigned char c : text) hash = (hash ^ c) * 0x100000001b3ull;
  return hash;
}

}  // namespace

OuterNames OuterNamesOf(const ModelConfig& config) {
  if (!config.is_llama()) return {"wte.weight", "wpe.weight", "ln_f.weight", "ln_f.bias", "wte.weight"};
  return {"embed_tokens.weight", "", "norm.weight", "",
          config.tied_head ? "embed_tokens.weight" : "lm_head.weight"};
}

std::vector<ParameterSpec> SegmentParameters(const ModelConfig& config, int segment) {
  std::vector<ParameterSpec> parameters;
  const OuterNames names = OuterNamesOf(config);
  const int block = segment - 1;
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
    parameters.push_back(Vector(names.final_norm_weight, config.hidden, Initialisation::kOne));
    if (!names.final_norm_bias.empty()) {
      parameters.push_back(Vector(names.final_norm_bias, config.hidden, Initialisation::kZero));
    }
    if (!config.tied_head) parameters.push_back(vocabulary_matrix(names.head));
  } else if (config.is_llama()) {
    AppendLlamaLayer(config, block - 1, parameters);
  } else {
    AppendGpt2Layer(config, block - 1, parameters);
  }
  return parameters;
}

int64_t SegmentElements(const ModelConfig& c, int segment) {
  const int64_t C = c.hidden, F = c.feed_forward, untied = c.tied_head ? 0 : c.vocabulary * C;
  const int block = segment - 1;
  if (segment == kTiedSegment) return c.tied_head ? c.vocabulary * C : 0;
  if (block == c.embedding_block()) return untied + (c.is_llama() ? 0 : c.context * C);
  if (block == c.head_block()) return untied + (c.is_llama() ? C : 2 * C);
  if (c.is_llama()) return 2 * C + c.joined_width() * C + c.attention_width() * C + 3 * C * F;
  return 4 * C + (C + 1) * c.joined_width() + (c.attention_width() + 1) * C + (C + 1) * F + (F + 1) * C;
}

bool Holds(absl::Span<const BlockRange> chunks, int block) {
  return std::any_of(chunks.begin(), chunks.end(),
                     [&](const BlockRange& range) { return range.contains(block); });
}

std::vector<int> SegmentsOf(const ModelConfig& config, absl::Span<const BlockRange> chunks) {
  std::vector<int> segments;
  if (Holds(chunks, config.embedding_block()) || Holds(chunks, config.head_block())) {
    segments.push_back(kTiedSegment);
  }
  for (const BlockRange& range : chunks) {
    for (int block = range.first; block < range.end; ++block) segments.push_back(SegmentOfBlock(block));
  }
  return segments;
}

int64_t ModelElements(const ModelConfig& config) {
  int64_t elements = 0;
  for (int segment = 0; segment < SegmentCount(config); ++segment)
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
  for (const int segment : SegmentsOf(config, chunks)) {
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
  if (spec.initialisation != Initialisation::kNormal) {
    std::fill_n(values, spec.elements, spec.initialisation == Initialisation::kOne ? 1.0f : 0.0f);
    return;
  }
  const uint64_t stream = SplitMix64(Fnv1a(spec.name) ^ SplitMix64(seed));
  for (int64_t i = 0; i < spec.elements; i += 2) {
    const uint64_t a = SplitMix64(stream + static_cast<uint64_t>(i));
    const uint64_t b = SplitMix64(stream + static_cast<uint64_t>(i) + 1);
    const double uniform = (static_cast<double>(a >> 11) + 1.0) * 0x1.0p-53;  // (0, 1]
    const double angle = 2.0 * std::numbers::pi * static_cast<double>(b >> 11) * 0x1.0p-53;
    const double radius = std::sqrt(-2.0 * std::log(uniform)) * spec.standard_deviation;
    values[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < spec.elements) values[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

}  // namespace medley
