#include "runtime/engine/checkpoint/model_json.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/files/strict_json.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/model/family.h"

namespace medley {
namespace {

using nlohmann::json;

constexpr IntegerRange kSize = {1, std::numeric_limits<int32_t>::max()};
constexpr IntegerRange kSizeOrNone = {0, std::numeric_limits<int32_t>::max()};  // 0 as in ModelConfig

json ScalingJson(const RotaryScaling& scaling) {
  return {{"factor", scaling.factor},
          {"low_frequency_factor", scaling.low_frequency_factor},
          {"high_frequency_factor", scaling.high_frequency_factor},
          {"original_context", scaling.original_context}};
}

absl::StatusOr<RotaryScaling> ParseScaling(const json& object) {
  RotaryScaling scaling;
  ASSIGN_OR_RETURN(scaling.factor, NumberMember(object, "factor"));
  ASSIGN_OR_RETURN(scaling.low_frequency_factor, NumberMember(object, "low_frequency_factor"));
  ASSIGN_OR_RETURN(scaling.high_frequency_factor, NumberMember(object, "high_frequency_factor"));
  ASSIGN_OR_RETURN(scaling.original_context, IntegerMember(object, "original_context", kSize));
  return scaling;
}

absl::StatusOr<ModelFamily> ParseFamily(const json& object) {
  if (!object.is_object() || !object.contains("family")) return ModelFamily::kGpt2;
  ASSIGN_OR_RETURN(const std::string name, StringMember(object, "family"));
  std::vector<std::string> known;
  for (const ModelFamily family : {ModelFamily::kGpt2, ModelFamily::kLlama}) {
    known.push_back(FamilyOf(family).name);
    if (name == known.back()) return family;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"family\" is ", Excerpt(name), ", must be \"", absl::StrJoin(known, "\" or \""), "\""));
}

absl::Status ParseLlama(const json& object, ModelConfig& model) {
  ASSIGN_OR_RETURN(const json* tied_head, Member(object, "tied_head"));
  if (!tied_head->is_boolean()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"tied_head\" is ", Excerpt(*tied_head), ", must be true or false"));
  }
  model.tied_head = tied_head->get<bool>();
  ASSIGN_OR_RETURN(model.key_value_heads, IntegerMember(object, "key_value_heads", kSizeOrNone));
  ASSIGN_OR_RETURN(model.head_size, IntegerMember(object, "head_size", kSizeOrNone));
  ASSIGN_OR_RETURN(model.rotary_base, NumberMember(object, "rotary_base"));
  ASSIGN_OR_RETURN(const json* scaling, Member(object, "rotary_scaling"));
  if (scaling->is_null()) return absl::OkStatus();
  ASSIGN_OR_RETURN(model.rotary_scaling, ParseScaling(*scaling));
  return absl::OkStatus();
}

}  // namespace

json ModelJson(const ModelConfig& model) {
  json object = {{"family", FamilyOf(model).name},
                 {"layers", model.layers},
                 {"hidden", model.hidden},
                 {"heads", model.heads},
                 {"feed_forward", model.feed_forward},
                 {"vocabulary", model.vocabulary},
                 {"context", model.context},
                 {"layer_norm_epsilon", model.norm_epsilon}};
  if (model.family != ModelFamily::kLlama) return object;
  object["tied_head"] = model.tied_head;
  object["key_value_heads"] = model.key_value_heads;
  object["head_size"] = model.head_size;
  object["rotary_base"] = model.rotary_base;
  object["rotary_scaling"] = model.rotary_scaling ? ScalingJson(*model.rotary_scaling) : json();
  return object;
}

absl::StatusOr<ModelConfig> ParseModelJson(const json& object) {
  ModelConfig model;
  ASSIGN_OR_RETURN(model.family, ParseFamily(object));
  ASSIGN_OR_RETURN(model.layers, IntegerMember(object, "layers", {0, 1'000'000}));
  ASSIGN_OR_RETURN(model.hidden, IntegerMember(object, "hidden", kSize));
  ASSIGN_OR_RETURN(model.heads, IntegerMember(object, "heads", kSize));
  ASSIGN_OR_RETURN(model.feed_forward, IntegerMember(object, "feed_forward", kSize));
  ASSIGN_OR_RETURN(model.vocabulary, IntegerMember(object, "vocabulary", kSize));
  ASSIGN_OR_RETURN(model.context, IntegerMember(object, "context", kSize));
  ASSIGN_OR_RETURN(model.norm_epsilon, NumberMember(object, "layer_norm_epsilon"));
  if (model.family == ModelFamily::kLlama) RETURN_IF_ERROR(ParseLlama(object, model));
  return model;
}

}  // namespace medley
