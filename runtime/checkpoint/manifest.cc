#include "runtime/checkpoint/manifest.h"

#include <xxhash.h>

#include <charconv>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/status_macros.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/checkpoint/model_json.h"
#include "runtime/checkpoint/strict_json.h"
#include "runtime/model/model_check.h"
#include "runtime/model/parameters.h"

namespace medley {
namespace {

using nlohmann::json;

constexpr char kFormat[] = "medley checkpoint";
constexpr char kOwnChecksum[] = "xxh3_64";  // over the rest of the manifest
constexpr IntegerRange kSize = {1, std::numeric_limits<int32_t>::max()};
constexpr IntegerRange kCount = {0, std::numeric_limits<int64_t>::max()};
constexpr IntegerRange kIndex = {0, std::numeric_limits<int32_t>::max()};

std::string Hex(uint64_t value) { return absl::StrFormat("%016x", value); }

absl::StatusOr<uint64_t> HexMember(const json& object, const std::string& name) {
  ASSIGN_OR_RETURN(const std::string text, StringMember(object, name));
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  // Comparing with the only spelling there is refuses the rest.
  if (error != std::errc() || end != text.data() + text.size() || Hex(value) != text) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", name, "\" is ", Excerpt(text), ", must be 16 lower-case hexadecimal digits"));
  }
  return value;
}

// Of the compact text with sorted names, so that layout and order do not matter.
uint64_t ChecksumOf(const json& manifest) {
  const std::string text = manifest.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
  return XXH3_64bits(text.data(), text.size());
}

json ToJson(const DataPosition& data) {
  return {{"steps", data.steps},
          {"order", NameOf(data.order)},
          {"seed", data.seed},
          {"sequence", data.sequence},
          {"global_batch_sequences", data.global_batch_sequences}};
}

absl::StatusOr<DataPosition> ParseData(const json& object) {
  DataPosition data;
  ASSIGN_OR_RETURN(data.steps, IntegerMember(object, "steps", kCount));
  ASSIGN_OR_RETURN(const std::string order, StringMember(object, "order"));
  const std::optional<DataOrder> known = ParseDataOrder(order);
  if (!known.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"order\" is ", Excerpt(order), ", must be \"sequential\" or \"shuffled\""));
  }
  data.order = *known;
  ASSIGN_OR_RETURN(data.seed, UnsignedMember(object, "seed"));
  ASSIGN_OR_RETURN(data.sequence, IntegerMember(object, "sequence", kSize));
  ASSIGN_OR_RETURN(data.global_batch_sequences, IntegerMember(object, "global_batch_sequences", kSize));
  return data;
}

absl::StatusOr<std::vector<FileRecord>> ParseFiles(const json& array) {
  if (!array.is_array()) return absl::InvalidArgumentError("\"files\" must be a list");
  std::vector<FileRecord> files;
  for (const json& object : array) {
    FileRecord file;
    ASSIGN_OR_RETURN(file.segment, IntegerMember(object, "segment", kIndex));
    ASSIGN_OR_RETURN(file.name, StringMember(object, "name"));
    ASSIGN_OR_RETURN(file.digest.bytes, IntegerMember(object, "bytes", kCount));
    ASSIGN_OR_RETURN(file.digest.xxh3, HexMember(object, kOwnChecksum));
    files.push_back(std::move(file));
  }
  return files;
}

absl::StatusOr<CheckpointManifest> FromJson(const json& object) {
  CheckpointManifest manifest;
  ASSIGN_OR_RETURN(manifest.job, StringMember(object, "job"));
  ASSIGN_OR_RETURN(manifest.step, IntegerMember(object, "step", kCount));
  ASSIGN_OR_RETURN(const json* model, Member(object, "model"));
  ASSIGN_OR_RETURN(manifest.model, ParseModelJson(*model));
  ASSIGN_OR_RETURN(const json* data, Member(object, "data"));
  ASSIGN_OR_RETURN(manifest.data, ParseData(*data));
  ASSIGN_OR_RETURN(const json* files, Member(object, "files"));
  ASSIGN_OR_RETURN(manifest.files, ParseFiles(*files));
  RETURN_IF_ERROR(CheckManifest(manifest));
  return manifest;
}

// Checks what must hold before the rest can be believed, and takes the checksum out.
absl::Status CheckEnvelope(json& object) {
  ASSIGN_OR_RETURN(const std::string format, StringMember(object, "format"));
  if (format != kFormat) {
    return absl::DataLossError(
        absl::StrCat("\"format\" is ", Excerpt(format), ", must be \"", kFormat, "\""));
  }
  ASSIGN_OR_RETURN(const int64_t version, IntegerMember(object, "version", kCount));
  ASSIGN_OR_RETURN(const uint64_t checksum, HexMember(object, kOwnChecksum));
  object.erase(kOwnChecksum);
  if (ChecksumOf(object) != checksum) return absl::DataLossError("the manifest's checksum does not match it");
  if (version != kManifestVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("\"version\" is ", version, ", this program reads ", kManifestVersion));
  }
  return absl::OkStatus();
}

absl::Status AsDataLoss(const absl::Status& status) {
  return absl::IsInvalidArgument(status) ? absl::DataLossError(status.message()) : status;
}

}  // namespace

std::string SegmentFileName(int segment) { return absl::StrFormat("segment-%05d.safetensors", segment); }

std::string ManifestText(const CheckpointManifest& manifest) {
  json files = json::array();
  for (const FileRecord& file : manifest.files) {
    files.push_back({{"segment", file.segment},
                     {"name", file.name},
                     {"bytes", file.digest.bytes},
                     {kOwnChecksum, Hex(file.digest.xxh3)}});
  }
  json object = {
      {"format", kFormat},        {"version", kManifestVersion},     {"job", manifest.job},
      {"step", manifest.step},    {"model", ModelJson(manifest.model)}, {"data", ToJson(manifest.data)},
      {"files", std::move(files)}};
  object[kOwnChecksum] = Hex(ChecksumOf(object));
  return object.dump(2, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace) + "\n";
}

absl::StatusOr<CheckpointManifest> ParseManifest(const std::string& text) {
  absl::StatusOr<json> object = ParseStrictJson(text);
  if (!object.ok()) return AsDataLoss(object.status());
  RETURN_IF_ERROR(AsDataLoss(CheckEnvelope(*object)));
  absl::StatusOr<CheckpointManifest> manifest = FromJson(*object);
  if (!manifest.ok()) return AsDataLoss(manifest.status());
  return manifest;
}

absl::StatusOr<CheckpointManifest> ReadManifest(const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/", kManifestName);
  ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  const std::string text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  absl::StatusOr<CheckpointManifest> manifest = ParseManifest(text);
  if (!manifest.ok()) return Annotate(manifest.status(), path);
  const std::optional<int64_t> step = StepOfDirectory(directory);
  if (step.has_value() && *step != manifest->step) {
    return absl::DataLossError(
        absl::StrCat(path, ": \"step\" is ", manifest->step, " in the directory of step ", *step));
  }
  manifest->directory = directory;
  return manifest;
}

absl::StatusOr<MappedFile> OpenVerified(const CheckpointManifest& manifest, const FileRecord& file,
                                        Verification verification) {
  ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(absl::StrCat(manifest.directory, "/", file.name)));
  const int64_t bytes = static_cast<int64_t>(mapped.bytes().size());
  if (bytes != file.digest.bytes) {
    return absl::DataLossError(
        absl::StrCat(mapped.path(), ": has ", bytes, " bytes, the manifest says ", file.digest.bytes));
  }
  if (verification == Verification::kSizes) return mapped;
  const uint64_t xxh3 = DigestOf(mapped.bytes()).xxh3;
  if (xxh3 != file.digest.xxh3) {
    return absl::DataLossError(absl::StrCat(mapped.path(), ": has checksum ", Hex(xxh3),
                                            ", the manifest says ", Hex(file.digest.xxh3)));
  }
  return mapped;
}

absl::Status CheckManifest(const CheckpointManifest& manifest) {
  const ModelConfig& model = manifest.model;
  const absl::Status possible = CheckModel(model);
  if (!possible.ok()) return Annotate(possible, absl::StrCat("\"model\" is ", ModelJson(model).dump()));
  const DataPosition& data = manifest.data;
  if (manifest.step < 0 || data.steps < 0 || data.sequence < 1 || data.global_batch_sequences < 1) {
    return absl::InvalidArgumentError(absl::StrCat("\"step\" is ", manifest.step, " and \"data\" ",
                                                   ToJson(data).dump(), ": not a position"));
  }
  const int segments = SegmentCount(model);
  if (static_cast<int>(manifest.files.size()) != segments) {
    return absl::InvalidArgumentError(absl::StrCat("\"files\" has ", manifest.files.size(),
                                                   " files, must have one for each of ", segments,
                                                   " segments"));
  }
  for (int segment = 0; segment < segments; ++segment) {
    const FileRecord& file = manifest.files[static_cast<size_t>(segment)];
    if (file.segment != segment || file.name != SegmentFileName(segment)) {
      return absl::InvalidArgumentError(absl::StrCat("\"files\"[", segment, "] is segment ", file.segment,
                                                     ", file ", Excerpt(file.name), "; must be segment ",
                                                     segment, ", file \"", SegmentFileName(segment), "\""));
    }
  }
  return absl::OkStatus();
}

}  // namespace medley
