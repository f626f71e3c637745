#include "runtime/ir/model/model_check.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

// Also false for NaN.
bool IsPositive(float value) { return value > 0 && std::isfinite(value); }

absl::Status CheckSizes(const ModelConfig& model, const DimensionNames& names) {
  if (model.layers < 0) return Invalid("layers: ", model.layers, ", must be at least 0");
  const struct {
    absl::string_view name;
    int value;
  } positive[] = {{names.hidden, model.hidden},
                  {names.heads, model.heads},
                  {"feed_forward", model.feed_forward},
                  {"vocabulary", model.vocabulary},
                  {"context", model.context}};
  for (const auto& [name, value] : positive) {
    if (value < 1) return Invalid(name, ": ", value, ", must be at least 1");
  }
  if (!IsPositive(model.norm_epsilon)) {
    return Invalid(names.norm_epsilon, ": ", model.norm_epsilon, ", must be positive");
  }
  if (model.head_size == 0 && model.hidden % model.heads != 0) {
    return Invalid(names.heads, ": ", model.heads, " does not divide ", names.hidden, ", ", model.hidden);
  }
  return absl::OkStatus();
}

absl::Status CheckRotary(const ModelConfig& model, const DimensionNames& names) {
  if (!IsPositive(model.rotary_base)) {
    return Invalid(names.rotary_base, ": ", model.rotary_base, ", must be positive");
  }
  if (!model.rotary_scaling) return absl::OkStatus();
  const RotaryScaling& scaling = *model.rotary_scaling;
  if (!IsPositive(scaling.factor) || !IsPositive(scaling.low_frequency_factor) ||
      scaling.original_context < 1) {
    return Invalid(names.rotary_scaling, ": factors ", scaling.factor, " and ", scaling.low_frequency_factor,
                   ", context ", scaling.original_context, "; must be positive");
  }
  if (!(scaling.low_frequency_factor < scaling.high_frequency_factor)) {
    return Invalid(names.rotary_scaling, ": the low-frequency factor, ", scaling.low_frequency_factor,
                   ", must be less than the high-frequency factor, ", scaling.high_frequency_factor);
  }
  return absl::OkStatus();
}

absl::Status CheckLlama(const ModelConfig& model, const DimensionNames& names) {
  if (model.key_value_heads < 0 || model.heads % model.key_value_head_count() != 0) {
    return Invalid(names.key_value_heads, ": ", model.key_value_heads, " does not divide ", names.heads, ", ",
                   model.heads);
  }
  if (model.size_of_head() < 1 || model.size_of_head() % 2 != 0) {
    return Invalid(names.head_size, ": ", model.size_of_head(), " is not even; rotary positions turn pairs");
  }
  return CheckRotary(model, names);
}

}  // namespace

absl::Status CheckModel(const ModelConfig& model, const DimensionNames& names) {
  RETURN_IF_ERROR(CheckSizes(model, names));
  if (model.family == ModelFamily::kLlama) return CheckLlama(model, names);
  if (!model.tied_head || model.key_value_heads != 0 || model.head_size != 0 || model.rotary_scaling) {
    return Invalid(
        "a GPT-2 has a tied head, as many key and value heads as query heads, heads of hidden / heads, "
        "and no rotary positions");
  }
  return absl::OkStatus();
}

}  // namespace medley
