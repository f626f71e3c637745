#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "runtime/base/status_macros.h"
#include "runtime/checkpoint/hugging_face.h"
#include "runtime/checkpoint/hugging_face_family.h"
#include "runtime/checkpoint/strict_json.h"
#include "runtime/data/mapped_file.h"
#include "runtime/model/parameters.h"

namespace medley {
namespace {

using nlohmann::json;

absl::StatusOr<json> ReadJson(const std::string& path) {
  ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  absl::StatusOr<json> value =
      ParseStrictJson({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
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
  const absl::StatusOr<const HuggingFaceFamily*> family = FamilyOf(config);
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
  return model;
}

void HuggingFaceModel::AddFile(SafetensorsFile file) {
  const absl::string_view prefix = FamilyOf(config_).prefix;
  for (const StoredTensor& tensor : file.tensors()) {
    const std::string bare(absl::StripPrefix(tensor.name, prefix));
    places_.insert({bare, {files_.size(), tensor.name}});
  }
  files_.push_back(std::move(file));
}

absl::Status HuggingFaceModel::CheckParameters(const std::string& directory) const {
  for (int segment = 0; segment < SegmentCount(config_); ++segment) {
    for (const ParameterSpec& spec : SegmentParameters(config_, segment)) {
      const auto place = places_.find(spec.name);
      if (place == places_.end()) {
        return absl::NotFoundError(absl::StrCat(
            directory, ": no tensor \"", FamilyOf(config_).StoredName(spec.name), "\" among the weights"));
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
