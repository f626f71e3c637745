#include "runtime/engine/checkpoint/hugging_face_family.h"

#include <charconv>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status_macros.h"

namespace medley {

using nlohmann::json;

std::string HuggingFaceFamily::StoredName(const std::string& name) const {
  return name == bare_parameter ? name : absl::StrCat(prefix, name);
}

absl::Span<const HuggingFaceFamily* const> HuggingFaceFamilies() {
  static const HuggingFaceFamily* const families[] = {&kHuggingFaceGpt2, &kHuggingFaceLlama};
  return families;
}

const HuggingFaceFamily& HuggingFaceFamilyOf(const ModelConfig& model) {
  return model.family == ModelFamily::kLlama ? kHuggingFaceLlama : kHuggingFaceGpt2;
}

absl::StatusOr<const HuggingFaceFamily*> HuggingFaceFamilyOf(const json& config) {
  ASSIGN_OR_RETURN(const std::string model_type, StringMember(config, "model_type"));
  std::vector<std::string> known;
  for (const HuggingFaceFamily* family : HuggingFaceFamilies()) {
    if (family->model_type == model_type) return family;
    known.push_back(absl::StrCat("\"", family->model_type, "\""));
  }
  return absl::InvalidArgumentError(absl::StrCat("\"model_type\" is ", Excerpt(model_type), ", must be ",
                                                 absl::StrJoin(known, " or "),
                                                 ": other architectures are not read"));
}

bool IsGiven(const json& config, const std::string& name) {
  return config.contains(name) && !config[name].is_null();
}

absl::Status CheckRequiredValues(const json& config, absl::Span<const RequiredValue> required) {
  for (const RequiredValue& option : required) {
    if (!config.contains(option.name) || config[option.name] == option.value) continue;
    return absl::InvalidArgumentError(absl::StrCat("\"", option.name, "\" is ", Excerpt(config[option.name]),
                                                   ", only ", option.value.dump(),
                                                   " is supported: ", option.meaning));
  }
  return absl::OkStatus();
}

absl::StatusOr<float> PositiveMember(const json& config, const std::string& name, float fallback) {
  if (!IsGiven(config, name)) return fallback;
  ASSIGN_OR_RETURN(const double number, NumberMember(config, name));
  const float value = static_cast<float>(number);
  if (value > 0 && std::isfinite(value)) return value;
  return absl::InvalidArgumentError(absl::StrCat("\"", name, "\" is ", number, ", must be positive"));
}

double ShortestDouble(float value) {
  char text[32];
  const auto printed = std::to_chars(text, text + sizeof(text), value);
  double shortest = value;
  std::from_chars(text, printed.ptr, shortest);
  return shortest;
}

}  // namespace medley
