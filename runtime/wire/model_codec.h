#pragma once
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "proto/medley/v1/job.pb.h"
#include "runtime/ir/model/model_config.h"

namespace medley {

// The dimensions that `model` asks for, defaults filled in as the comments of proto/medley/v1/job.proto say;
// a Llama has key_value_heads and head_size always. `sequence_length`: the context where none is given.
// `hugging_face_config`: the dimensions that model.hugging_face's config.json gives; not looked at without
// it. `model` has passed ValidateMessage.
//
// InvalidArgument "FIELD PATH: value and what is allowed".
// FailedPrecondition: model.hugging_face is given and hugging_face_config is not.
absl::StatusOr<ModelConfig> DecodeModel(const v1::ModelSpec& model, uint32_t sequence_length,
                                        const std::optional<ModelConfig>& hugging_face_config);

// Which of its fields says what the model is, for messages: "model.gpt2". `model` has passed DecodeModel.
std::string ModelFieldPath(const v1::ModelSpec& model);

}  // namespace medley
