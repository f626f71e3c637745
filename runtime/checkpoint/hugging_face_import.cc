#include <cmath>
#include <filesystem>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "runtime/base/status_macros.h"
#include "runtime/checkpoint/hugging_face.h"
#include "runtime/checkpoint/strict_json.h"
#include "runtime/data/mapped_file.h"
#include "runtime/model/parameters.h"

namespace medley {
namespace {

using nlohmann::json;

constexpr IntegerRange kSize = {1, 1 << 24};
constexpr IntegerRange kLayers = {1, 100'000};

absl::StatusOr<json> ReadJson(const std::string& path) {
  ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  absl::StatusOr<json> value =
      ParseStrictJson({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
  if (!value.ok()) return Annotate(value.status(), path);
  if (!value->is_object()) return absl::InvalidArgumentError(path + ": must be a JSON object");
  return value;
}

// What a member must be, where it is there at all; its default in GPT2Config is the same.
struct RequiredValue {
  std::string name;
  json value;
  std::string meaning;
};

absl::Status CheckSupported(const json& config) {
  const RequiredValue required[] = {
      {"model_type", "gpt2", "other architectures are not read"},
      {"activation_function", "gelu_new", "GPT-2's tanh GELU"},
      {"scale_attn_weights", true, "attention is divided by the square root of the head's size"},
      {"scale_attn_by_inverse_layer_idx", false, "attention is not scaled by layer"},
      {"add_cross_attention", false, "there is no encoder"},
      {"tie_word_embeddings", true, "the output head is the token embedding"},
  };
  for (const RequiredValue& option : required) {
    if (!config.contains(option.name) || config[option.name] == option.value) continue;
    return absl::InvalidArgumentError(absl::StrCat("\"", option.name, "\" is ", Excerpt(config[option.name]),
                                                   ", only ", option.value.dump(),
                                                   " is supported: ", option.meaning));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> Context(const json& config) {
  const bool has_positions = config.contains("n_positions");
  ASSIGN_OR_RETURN(const int64_t context,
                   IntegerMember(config, has_positions ? "n_positions" : "n_ctx", kSize));
  if (has_positions && config.contains("n_ctx") && config["n_ctx"] != context) {
    return absl::InvalidArgumentError(absl::StrCat("\"n_ctx\" is ", Excerpt(config["n_ctx"]),
                                                   ", \"n_positions\" is ", context, ": must be equal"));
  }
  return static_cast<int>(context);
}

absl::StatusOr<ModelConfig> ParseConfig(const json& config) {
  RETURN_IF_ERROR(CheckSupported(config));
  ModelConfig model;
  ASSIGN_OR_RETURN(model.layers, IntegerMember(config, "n_layer", kLayers));
  ASSIGN_OR_RETURN(model.hidden, IntegerMember(config, "n_embd", kSize));
  ASSIGN_OR_RETURN(model.heads, IntegerMember(config, "n_head", kSize));
  ASSIGN_OR_RETURN(model.vocabulary, IntegerMember(config, "vocab_size", kSize));
  ASSIGN_OR_RETURN(model.context, Context(config));
  if (model.hidden % model.heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"n_head\" is ", model.heads, ", must divide \"n_embd\", ", model.hidden));
  }
  model.feed_forward = 4 * model.hidden;
  if (config.contains("n_inner") && !config["n_inner"].is_null()) {
    ASSIGN_OR_RETURN(model.feed_forward, IntegerMember(config, "n_inner", {1, 4 * kSize.most}));
  }
  if (config.contains("layer_norm_epsilon")) {
    ASSIGN_OR_RETURN(const double epsilon, NumberMember(config, "layer_norm_epsilon"));
    model.norm_epsilon = static_cast<float>(epsilon);
    if (!(model.norm_epsilon > 0) || !std::isfinite(model.norm_epsilon)) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"layer_norm_epsilon\" is ", epsilon, ", must be positive"));
    }
  }
  return model;
}

// The distinct file names in an index, each in the index's own directory.
absl::StatusOr<std::set<std::string>> Shards(const json& index) {
  ASSIGN_OR_RETURN(const json* weights, Member(index, "weight_map"));
  if (!weights->is_object()) return absl::InvalidArgumentError("\"weight_map\" must be an object");
  std::set<std::string> shards;
  for (const auto& [tensor, value] : weights->items()) {
    const std::string shard = value.is_string() ? value.get<std::string>() : "";
    if (shard.empty() || absl::StrContains(shard, "/")) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"weight_map\": ", Excerpt(tensor), " is ", Excerpt(value), ", must be a file name"));
    }
    shards.insert(shard);
  }
  return shards;
}

}  // namespace

absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& directory) {
  const std::string path = directory + "/config.json";
  ASSIGN_OR_RETURN(const json config, ReadJson(path));
  absl::StatusOr<ModelConfig> model = ParseConfig(config);
  if (!model.ok()) return Annotate(model.status(), path);
  return model;
}

absl::StatusOr<HuggingFaceModel> HuggingFaceModel::Open(const std::string& directory) {
  ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(directory));
  HuggingFaceModel model(config);
  const std::string whole = directory + "/model.safetensors";
  const std::string index_path = whole + ".index.json";
  std::error_code ignored;
  if (std::filesystem::exists(whole, ignored) || !std::filesystem::exists(index_path, ignored)) {
    ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(whole));
    model.AddFile(std::move(file));
  } else {
    ASSIGN_OR_RETURN(const json index, ReadJson(index_path));
    const absl::StatusOr<std::set<std::string>> shards = Shards(index);
    if (!shards.ok()) return Annotate(shards.status(), index_path);
    for (const std::string& shard : *shards) {
      ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(absl::StrCat(directory, "/", shard)));
      model.AddFile(std::move(file));
    }
  }
  RETURN_IF_ERROR(model.CheckParameters(directory));
  return model;
}

void HuggingFaceModel::AddFile(SafetensorsFile file) {
  for (const StoredTensor& tensor : file.tensors()) {
    const std::string bare(absl::StripPrefix(tensor.name, "transformer."));
    places_.insert({bare, {files_.size(), tensor.name}});
  }
  files_.push_back(std::move(file));
}

absl::Status HuggingFaceModel::CheckParameters(const std::string& directory) const {
  for (int segment = 0; segment < SegmentCount(config_); ++segment) {
    for (const ParameterSpec& spec : SegmentParameters(config_, segment)) {
      const auto place = places_.find(spec.name);
      if (place == places_.end()) {
        return absl::NotFoundError(absl::StrCat(directory, ": no tensor \"", spec.name,
                                                "\" or \"transformer.", spec.name, "\" among the weights"));
      }
      RETURN_IF_ERROR(files_[place->second.file].CheckReadable(place->second.name, spec.shape));
    }
  }
  return absl::OkStatus();
}

absl::Status HuggingFaceModel::ReadSegment(int segment, absl::Span<float> values) const {
  if (segment < 0 || segment >= SegmentCount(config_) ||
      static_cast<int64_t>(values.size()) != SegmentElements(config_, segment)) {
    return absl::InvalidArgumentError(absl::StrCat("segment ", segment, " of ", SegmentCount(config_),
                                                   " asked for into ", values.size(), " values"));
  }
  for (const ParameterSpec& spec : SegmentParameters(config_, segment)) {
    const Place& place = places_.at(spec.name);  // CheckParameters found it
    const size_t elements = static_cast<size_t>(spec.elements);
    RETURN_IF_ERROR(files_[place.file].ReadAsF32(place.name, spec.shape, values.first(elements)));
    values.remove_prefix(elements);
  }
  return absl::OkStatus();
}

}  // namespace medley
