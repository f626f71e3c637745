#pragma once
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/engine/checkpoint/manifest.h"
#include "runtime/engine/checkpoint/safetensors.h"
#include "runtime/ir/model/model_config.h"
#include "runtime/ir/model/parameters.h"

// Exchange with Hugging Face transformers: a directory with config.json and model.safetensors (or its shards
// and model.safetensors.index.json) of a GPT2LMHeadModel or a LlamaForCausalLM.
namespace medley {

// Reads <directory>/config.json. Dropout settings are ignored: Medley trains without dropout.
//
// Errors; the message names the file, the member, its value and what is allowed:
//   NotFound          there is no config.json.
//   InvalidArgument   it is not JSON; a dimension is missing or impossible; "model_type" is neither "gpt2"
//                     nor "llama"; or the model is not as published. GPT-2: another activation_function than
//                     gelu_new, attention that is unscaled, scaled by layer or crossed, an output head that
//                     is not tied to the token embedding. Llama: another hidden_act than silu, biases, rotary
//                     positions that turn a part of a head or are scaled in another way than Llama 3.1's, a
//                     sliding_window smaller than the context.
absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& directory);

// A pretrained model on disk. Movable. Reading is safe from any number of threads.
class HuggingFaceModel {
 public:
  // Opens the weights in `directory` and checks that every parameter of its config is there with its shape.
  // Tensor names may begin with "transformer." (GPT-2) or "model." (Llama); buffers and an lm_head.weight
  // that is tied, and equal to the token embedding, are passed over.
  //
  // Errors, beside ReadModelConfig's; the message names the file and the tensor:
  //   NotFound          no weights, a missing shard, or a missing tensor.
  //   InvalidArgument   a tensor of another shape or that is not F32, F16 or BF16, a malformed file or index,
  //                     a tensor of a layer that the config does not have, an lm_head.weight unlike the token
  //                     embedding where the config ties the two.
  static absl::StatusOr<HuggingFaceModel> Open(const std::string& directory);

  const ModelConfig& config() const { return config_; }

  // Writes the parameters of `segment`, one after another in the order of SegmentParameters, as f32. Errors:
  // InvalidArgument, values.size() is not SegmentElements(config(), segment), or a value is not finite (the
  // message names file, tensor and element); FailedPrecondition, a file has shrunk.
  absl::Status ReadSegment(SegmentId segment, absl::Span<float> values) const;
  // The same of one of its tensors, whose `elements` values.size() is.
  absl::Status ReadTensor(const ParameterSpec& tensor, absl::Span<float> values) const;

 private:
  struct Place {
    size_t file;
    std::string name;  // as that file has it
  };
  explicit HuggingFaceModel(ModelConfig config) : config_(config) {}
  void AddFile(SafetensorsFile file);
  absl::Status CheckParameters(const std::string& directory) const;
  absl::Status CheckLayers() const;
  absl::Status CheckTiedHead() const;

  ModelConfig config_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, Place> places_;  // by name as SegmentParameters has it
};

// Writes the parameters of a committed checkpoint as `directory` with config.json and model.safetensors
// (f32), as transformers' save_pretrained would; a model of 256 ids, whose tokens are bytes, also gets
// medley.json to say so. `directory` appears whole or not at all; an earlier export there is replaced.
//
// Errors; `directory` is as it was:
//   FailedPrecondition   `directory` exists and holds anything that is not an earlier export.
//   NotFound, DataLoss, InvalidArgument   from the checkpoint: see ReadSegment of segment_file.h.
//   Otherwise            those of AtomicFile.
absl::Status ExportHuggingFace(const CheckpointManifest& manifest, const std::string& directory);

}  // namespace medley
