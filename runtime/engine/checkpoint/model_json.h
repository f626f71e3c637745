#pragma once
#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "runtime/ir/model/model_config.h"

namespace medley {

// The member "model" of a manifest; README.md lists its members. Without "family" it is a GPT-2's, as all
// were before there was another.
nlohmann::json ModelJson(const ModelConfig& model);

// The inverse of ModelJson. InvalidArgument: a member is missing, of another type or outside its range; the
// message names it, its value and what is allowed. Whether the dimensions go together is CheckModel's to say.
absl::StatusOr<ModelConfig> ParseModelJson(const nlohmann::json& object);

}  // namespace medley
