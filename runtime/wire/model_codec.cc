#include "runtime/wire/model_codec.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/model/model_check.h"

namespace medley {
namespace {

constexpr uint32_t kByteVocabulary = 256;

int OrDefault(uint32_t value, uint32_t fallback) { return static_cast<int>(value != 0 ? value : fallback); }

// The fields of which exactly one says what the model is, those that are given.
std::vector<std::string> GivenFields(const v1::ModelSpec& model) {
  std::vector<std::string> given;
  if (model.has_gpt2()) given.push_back("gpt2");
  if (model.has_llama()) given.push_back("llama");
  if (!model.hugging_face().empty()) given.push_back("hugging_face");
  return given;
}

ModelConfig DecodeGpt2(const v1::Gpt2Spec& spec, uint32_t sequence_length) {
  return {.layers = static_cast<int>(spec.layers()),
          .hidden = static_cast<int>(spec.hidden()),
          .heads = static_cast<int>(spec.heads()),
          .feed_forward = OrDefault(spec.feed_forward(), 4 * spec.hidden()),
          .vocabulary = OrDefault(spec.vocabulary(), kByteVocabulary),
          .context = OrDefault(spec.context(), sequence_length)};
}

RotaryScaling DecodeScaling(const v1::RotaryScalingSpec& spec) {
  RotaryScaling scaling;
  if (spec.has_factor()) scaling.factor = static_cast<float>(spec.factor());
  if (spec.has_low_frequency_factor()) {
    scaling.low_frequency_factor = static_cast<float>(spec.low_frequency_factor());
  }
  if (spec.has_high_frequency_factor()) {
    scaling.high_frequency_factor = static_cast<float>(spec.high_frequency_factor());
  }
  scaling.original_context =
      OrDefault(spec.original_context(), static_cast<uint32_t>(scaling.original_context));
  return scaling;
}

ModelConfig DecodeLlama(const v1::LlamaSpec& spec, uint32_t sequence_length) {
  ModelConfig config = {.layers = static_cast<int>(spec.layers()),
                        .hidden = static_cast<int>(spec.hidden()),
                        .heads = static_cast<int>(spec.heads()),
                        .feed_forward = static_cast<int>(spec.feed_forward()),
                        .vocabulary = OrDefault(spec.vocabulary(), kByteVocabulary),
                        .context = OrDefault(spec.context(), sequence_length),
                        .family = ModelFamily::kLlama,
                        .tied_head = spec.tied_head(),
                        .key_value_heads = OrDefault(spec.key_value_heads(), spec.heads()),
                        .head_size = static_cast<int>(spec.head_size())};
  if (spec.has_norm_epsilon()) config.norm_epsilon = static_cast<float>(spec.norm_epsilon());
  if (spec.has_rotary_base()) config.rotary_base = static_cast<float>(spec.rotary_base());
  if (spec.has_rotary_scaling()) config.rotary_scaling = DecodeScaling(spec.rotary_scaling());
  return config;
}

}  // namespace

absl::StatusOr<ModelConfig> DecodeModel(const v1::ModelSpec& model, uint32_t sequence_length,
                                        const std::optional<ModelConfig>& hugging_face_config) {
  const std::vector<std::string> given = GivenFields(model);
  if (given.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("model: has ", given.empty() ? "none" : absl::StrJoin(given, " and "),
                     "; exactly one of gpt2, llama and hugging_face is allowed"));
  }
  if (!model.hugging_face().empty()) {
    if (hugging_face_config) return *hugging_face_config;
    return absl::FailedPreconditionError(
        absl::StrCat("model.hugging_face: the dimensions of ", model.hugging_face(), " are not known"));
  }
  ModelConfig config = model.has_gpt2() ? DecodeGpt2(model.gpt2(), sequence_length)
                                        : DecodeLlama(model.llama(), sequence_length);
  const absl::Status status = CheckModel(config);
  if (!status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(ModelFieldPath(model), ".", status.message()));
  }
  if (config.family == ModelFamily::kLlama) config.head_size = config.size_of_head();
  return config;
}

std::string ModelFieldPath(const v1::ModelSpec& model) {
  return absl::StrCat("model.", GivenFields(model).front());
}

}  // namespace medley
