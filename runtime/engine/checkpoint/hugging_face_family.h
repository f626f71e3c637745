#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/base/files/strict_json.h"
#include "runtime/ir/model/model_config.h"

// What is particular to a family of models in transformers' files: its config.json and its tensors' names. A
// family is a source file and a line of HuggingFaceFamilies.
namespace medley {

struct HuggingFaceFamily {
  ModelFamily family;
  absl::string_view model_type;      // the member of config.json
  absl::string_view prefix;          // of tensors' names in the files; SegmentParameters has them without
  absl::string_view bare_parameter;  // the one that the files name without `prefix`; empty: none
  absl::string_view layer_prefix;    // of the names of layer N's tensors, before N
  absl::string_view layers_member;   // of config.json: how many layers there are

  // The dimensions that a config.json of this model_type gives.
  // InvalidArgument: a member is missing or impossible, or asks for a variant that is not computed; the
  // message names the member, its value and what is allowed.
  absl::StatusOr<ModelConfig> (*parse)(const nlohmann::json& config);
  // The inverse, as save_pretrained writes it: every member that tells this model from another.
  nlohmann::json (*write)(const ModelConfig& model);

  // What the files call the parameter `name` of SegmentParameters.
  std::string StoredName(const std::string& name) const;
};

extern const HuggingFaceFamily kHuggingFaceGpt2, kHuggingFaceLlama;

// All of them.
absl::Span<const HuggingFaceFamily* const> HuggingFaceFamilies();
const HuggingFaceFamily& HuggingFaceFamilyOf(const ModelConfig& model);
// By config.json's "model_type". InvalidArgument: it is missing, no text, or none that is known.
absl::StatusOr<const HuggingFaceFamily*> HuggingFaceFamilyOf(const nlohmann::json& config);

// Sizes that a config.json may have.
inline constexpr IntegerRange kHuggingFaceSize = {1, 1 << 24};
inline constexpr IntegerRange kHuggingFaceLayers = {1, 100'000};

// Whether `config` has a member `name` that is not null: null stands for a default.
bool IsGiven(const nlohmann::json& config, const std::string& name);

// What a member must be, where it is given; its default in transformers is the same.
struct RequiredValue {
  std::string name;
  nlohmann::json value;
  std::string meaning;
};
// InvalidArgument: a member has another value.
absl::Status CheckRequiredValues(const nlohmann::json& config, absl::Span<const RequiredValue> required);

// A member that is a positive number, or `fallback` where it is not given.
// InvalidArgument: it is no number, or not positive or not finite as a float.
absl::StatusOr<float> PositiveMember(const nlohmann::json& config, const std::string& name, float fallback);

// The double that is written with the fewest digits among those that round to `value`: 1e-05,
// not 9.99999975e-06.
double ShortestDouble(float value);

}  // namespace medley
