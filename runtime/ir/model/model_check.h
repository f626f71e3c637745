#pragma once
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/ir/model/model_config.h"

namespace medley {

// What the dimensions are called where a model comes from, for messages.
struct DimensionNames {
  absl::string_view hidden = "hidden";
  absl::string_view heads = "heads";
  absl::string_view key_value_heads = "key_value_heads";
  absl::string_view head_size = "head_size";
  absl::string_view norm_epsilon = "norm_epsilon";
  absl::string_view rotary_base = "rotary_base";
  absl::string_view rotary_scaling = "rotary_scaling";
};

// Whether there can be a model of these dimensions, whichever file or message named them.
// InvalidArgument "NAME: value and what is allowed": a size that is not positive, sizes that do not go
// together, a family that has not what is asked for.
absl::Status CheckModel(const ModelConfig& model, const DimensionNames& names = {});

}  // namespace medley
