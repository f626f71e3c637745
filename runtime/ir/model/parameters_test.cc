#include "runtime/ir/model/parameters.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

namespace medley {
namespace {

const ModelConfig kConfig = {
    .layers = 3, .hidden = 12, .heads = 3, .feed_forward = 40, .vocabulary = 29, .context = 10};

constexpr ModelConfig kLlama = {.layers = 3,
                                .hidden = 12,
                                .heads = 4,
                                .feed_forward = 40,
                                .vocabulary = 29,
                                .context = 10,
                                .family = ModelFamily::kLlama,
                                .tied_head = false,
                                .key_value_heads = 2,
                                .head_size = 6};

ModelConfig Tied(ModelConfig config) {
  config.tied_head = true;
  return config;
}

const ModelConfig kModels[] = {kConfig, kLlama, Tied(kLlama)};

ModelConfig AnyConfig() { return kModels[GENERATE(0, 1, 2)]; }

TEST_CASE("a segment's size is the sum of its tensors, and the model's that of its segments") {
  const ModelConfig config = AnyConfig();
  int64_t total = 0;
  std::set<std::string> names;
  for (SegmentId segment = 0; segment < SegmentCount(config); ++segment) {
    CAPTURE(segment);
    int64_t elements = 0;
    for (const ParameterSpec& tensor : SegmentParameters(config, segment)) {
      CAPTURE(tensor.name);
      CHECK(names.insert(tensor.name).second);
      int64_t product = 1;
      for (const int64_t size : tensor.shape) product *= size;
      CHECK(product == tensor.elements);
      CHECK(tensor.decays == (tensor.shape.size() == 2));
      elements += tensor.elements;
    }
    CHECK(elements == SegmentElements(config, segment));
    total += elements;
  }
  CHECK(total == ModelElements(config));
}

TEST_CASE("the published GPT-2 has 124,439,808 parameters") {
  CHECK(ModelElements({.layers = 12,
                       .hidden = 768,
                       .heads = 12,
                       .feed_forward = 3072,
                       .vocabulary = 50257,
                       .context = 1024}) == 124'439'808);
}

TEST_CASE("the published Llamas have their number of parameters") {
  ModelConfig llama = {.layers = 32,
                       .hidden = 4096,
                       .heads = 32,
                       .feed_forward = 14336,
                       .vocabulary = 128256,
                       .context = 131072,
                       .family = ModelFamily::kLlama,
                       .tied_head = false,
                       .key_value_heads = 8};
  CHECK(ModelElements(llama) == 8'030'261'248);  // Llama 3.1 8B
  llama = {.layers = 16,
           .hidden = 2048,
           .heads = 32,
           .feed_forward = 8192,
           .vocabulary = 128256,
           .context = 131072,
           .family = ModelFamily::kLlama,
           .tied_head = true,
           .key_value_heads = 8};
  CHECK(ModelElements(llama) == 1'235'814'400);  // Llama 3.2 1B
}

TEST_CASE("a Llama's query, key and value lie side by side, as do gate and up") {
  const ParameterLayout layout = LayoutOf(kLlama, {{1, 2}});
  const auto end = [&](const char* name) {
    return layout.Find(name)->offset + layout.Find(name)->spec.elements;
  };
  CHECK(end("layers.0.self_attn.q_proj.weight") == layout.Find("layers.0.self_attn.k_proj.weight")->offset);
  CHECK(end("layers.0.self_attn.k_proj.weight") == layout.Find("layers.0.self_attn.v_proj.weight")->offset);
  CHECK(end("layers.0.mlp.gate_proj.weight") == layout.Find("layers.0.mlp.up_proj.weight")->offset);
}

TEST_CASE("a holder's segments and tensors lie one after another without a gap, for every range") {
  const ModelConfig config = AnyConfig();
  const int blocks = config.blocks();
  const int first = GENERATE_COPY(range(0, blocks));
  const int end = GENERATE_COPY(range(first + 1, blocks + 1));
  CAPTURE(first, end);
  const ParameterLayout layout = LayoutOf(config, {{first, end}});
  const bool has_tied = first == 0 || end == blocks;
  CHECK(std::count(layout.segments.begin(), layout.segments.end(), kTiedSegment) == (has_tied ? 1 : 0));
  CHECK(static_cast<int>(layout.segments.size()) == end - first + (has_tied ? 1 : 0));
  CHECK(std::is_sorted(layout.segments.begin(), layout.segments.end()));
  int64_t offset = 0;
  for (const PlacedParameter& placed : layout.parameters) {
    CHECK(placed.offset == offset);
    CHECK(layout.Find(placed.spec.name)->offset == offset);
    offset += placed.spec.elements;
  }
  CHECK(offset == layout.elements);
  offset = 0;
  for (size_t i = 0; i < layout.segments.size(); ++i) {
    CHECK(layout.segment_offsets[i] == offset);
    offset += SegmentElements(config, layout.segments[i]);
  }
  CHECK(offset == layout.elements);
  CHECK((layout.Find(OuterNamesOf(config).token_embedding) != nullptr) ==
        (config.tied_head ? has_tied : first == 0));
  CHECK(layout.Find("no such tensor") == nullptr);
  CHECK((layout.Find(OuterNamesOf(config).head) != nullptr) == (config.tied_head ? has_tied : end == blocks));
}

std::vector<float> Initial(const ParameterSpec& spec, uint64_t seed) {
  std::vector<float> values(spec.elements);
  InitialiseParameter(spec, seed, values.data());
  return values;
}

TEST_CASE("a tensor's first values follow from name and seed alone") {
  ModelConfig deeper = kConfig;
  deeper.context = 99;
  const ParameterSpec spec = SegmentParameters(kConfig, SegmentOfBlock(2))[2];
  REQUIRE(spec.name == "h.1.attn.c_attn.weight");
  CHECK(Initial(spec, 7) == Initial(SegmentParameters(deeper, SegmentOfBlock(2))[2], 7));
  CHECK(Initial(spec, 7) != Initial(spec, 8));
  ParameterSpec other = spec;
  other.name = "h.2.attn.c_attn.weight";
  CHECK(Initial(spec, 7) != Initial(other, 7));
  ParameterSpec shorter = spec;  // odd: the last of a pair is left out, the others stay
  shorter.elements = 11;
  const std::vector<float> values = Initial(spec, 7);
  CHECK(Initial(shorter, 7) == std::vector<float>(values.begin(), values.begin() + 11));
}

TEST_CASE("a tensor's first values are the same when they are made by pieces") {
  const int64_t piece = GENERATE(2, 6, 64, 4096);
  for (const ParameterSpec& spec : SegmentParameters(kConfig, SegmentOfBlock(2))) {
    CAPTURE(piece, spec.name);
    for (const int64_t elements : {spec.elements, spec.elements - 1}) {
      ParameterSpec sized = spec;
      sized.elements = elements;
      std::vector<float> values(elements, -1.0f);
      for (int64_t first = 0; first < elements; first += piece)
        InitialiseElements(sized, 7, first, absl::MakeSpan(values).subspan(first, piece));
      CHECK(values == Initial(sized, 7));
    }
  }
}

TEST_CASE("normal tensors have GPT-2's mean and deviation, gains are one, biases zero", "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{10}));
  CAPTURE(seed);
  const ModelConfig config = {
      .layers = 8, .hidden = 64, .heads = 4, .feed_forward = 256, .vocabulary = 97, .context = 32};
  for (const ParameterSpec& spec : SegmentParameters(config, SegmentOfBlock(3))) {
    CAPTURE(spec.name);
    const std::vector<float> values = Initial(spec, seed);
    if (spec.initialisation != Initialisation::kNormal) {
      const float want =
          spec.name.find("ln_") != std::string::npos && spec.name.ends_with("weight") ? 1.0f : 0.0f;
      CHECK(values == std::vector<float>(values.size(), want));
      continue;
    }
    double sum = 0, squares = 0;
    for (const float value : values) sum += value, squares += static_cast<double>(value) * value;
    const double count = static_cast<double>(values.size());
    const double deviation =
        spec.name.ends_with("c_proj.weight") ? 0.02 / std::sqrt(2.0 * config.layers) : 0.02;
    CHECK(std::abs(sum / count) < 5 * deviation / std::sqrt(count));
    CHECK(std::sqrt(squares / count) == Approx(deviation).epsilon(5 / std::sqrt(2 * count)));
  }
}

}  // namespace
}  // namespace medley
