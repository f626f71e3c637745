#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "runtime/base/files/file_reader.h"
#include "runtime/base/files/strict_json.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/checkpoint/hugging_face.h"
#include "runtime/engine/checkpoint/hugging_face_family.h"
#include "runtime/ir/model/parameters.h"

namespace medley {
namespace {

using nlohmann::json;

constexpr char kHead[] = "lm_head.weight";

absl::StatusOr<json> ReadJson(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  absl::StatusOr<json> value = ParseStrictJson(text);
  if (!value.ok()) return Annotate(value.status(), path);
  if (!value->is_object()) return absl::InvalidArgumentError(path + ": must be a JSON object");
  return value;
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
  const absl::StatusOr<const HuggingFaceFamily*> family = HuggingFaceFamilyOf(config);
  if (!family.ok()) return Annotate(family.status(), path);
  absl::StatusOr<ModelConfig> model = (*family)->parse(config);
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
  RETURN_IF_ERROR(model.CheckLayers());
  RETURN_IF_ERROR(model.CheckTiedHead());
  return model;
}

void HuggingFaceModel::AddFile(SafetensorsFile file) {
  const absl::string_view prefix = HuggingFaceFamilyOf(config_).prefix;
  for (const StoredTensor& tensor : file.tensors()) {
    const std::string bare(absl::StripPrefix(tensor.name, prefix));
    places_.insert({bare, {files_.size(), tensor.name}});
  }
  files_.push_back(std::move(file));
}

absl::Status HuggingFaceModel::CheckParameters(const std::string& directory) const {
  for (SegmentId segment = 0; segment < SegmentCount(config_); ++segment) {
    for (const ParameterSpec& spec : SegmentParameters(config_, segment)) {
      const auto place = places_.find(spec.name);
      if (place == places_.end()) {
        return absl::NotFoundError(absl::StrCat(directory, ": no tensor \"",
                                                HuggingFaceFamilyOf(config_).StoredName(spec.name),
                                                "\" among the weights"));
      }
      RETURN_IF_ERROR(files_[place->second.file].CheckReadable(place->second.name, spec.shape));
    }
  }
  return absl::OkStatus();
}

absl::Status HuggingFaceModel::CheckLayers() const {
  const HuggingFaceFamily& family = HuggingFaceFamilyOf(config_);
  for (const auto& [name, place] : places_) {
    absl::string_view rest = name;
    if (!absl::ConsumePrefix(&rest, family.layer_prefix)) continue;
    int layer = -1;
    if (!absl::SimpleAtoi(rest.substr(0, rest.find('.')), &layer) || layer < config_.layers) continue;
    return absl::InvalidArgumentError(absl::StrCat(files_[place.file].path(), ": \"", place.name,
                                                   "\" belongs to a layer that the model does not have: \"",
                                                   family.layers_member, "\" of config.json is ",
                                                   config_.layers));
  }
  return absl::OkStatus();
}

absl::Status HuggingFaceModel::CheckTiedHead() const {
  const auto head = places_.find(kHead);
  if (!config_.tied_head || head == places_.end()) return absl::OkStatus();
  const Place& embedding = places_.at(OuterNamesOf(config_).token_embedding);
  const SafetensorsFile& file = files_[head->second.file];
  const StoredTensor& stored = *files_[embedding.file].Find(embedding.name);
  RETURN_IF_ERROR(file.CheckReadable(head->second.name, stored.shape));
  std::vector<float> expected(static_cast<size_t>(stored.elements)), values(expected.size());
  RETURN_IF_ERROR(files_[embedding.file].ReadAsF32(embedding.name, stored.shape, absl::MakeSpan(expected)));
  RETURN_IF_ERROR(file.ReadAsF32(head->second.name, stored.shape, absl::MakeSpan(values)));
  if (std::memcmp(expected.data(), values.data(), values.size() * sizeof(float)) == 0)
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(file.path(), ": \"", head->second.name, "\" is not equal to \"", embedding.name,
                   "\", but config.json ties the two (\"tie_word_embeddings\"): one of them would be lost"));
}

absl::Status HuggingFaceModel::ReadSegment(SegmentId segment, absl::Span<float> values) const {
  if (segment < 0 || segment >= SegmentCount(config_) ||
      static_cast<int64_t>(values.size()) != SegmentElements(config_, segment)) {
    return absl::InvalidArgumentError(absl::StrCat("segment ", segment.value(), " of ", SegmentCount(config_),
                                                   " asked for into ", values.size(), " values"));
  }
  for (const ParameterSpec& spec : SegmentParameters(config_, segment)) {
    const size_t elements = static_cast<size_t>(spec.elements);
    RETURN_IF_ERROR(ReadTensor(spec, values.first(elements)));
    values.remove_prefix(elements);
  }
  return absl::OkStatus();
}

absl::Status HuggingFaceModel::ReadTensor(const ParameterSpec& tensor, absl::Span<float> values) const {
  const Place& place = places_.at(tensor.name);  // CheckParameters found it
  RETURN_IF_ERROR(files_[place.file].ReadAsF32(place.name, tensor.shape, values));
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    return absl::InvalidArgumentError(absl::StrCat(files_[place.file].path(), ": \"", place.name, "\" has ",
                                                   values[i], " as its element ", i,
                                                   "; weights must be finite"));
  }
  return absl::OkStatus();
}

}  // namespace medley
