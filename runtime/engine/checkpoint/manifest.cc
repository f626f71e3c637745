#include "runtime/engine/checkpoint/manifest.h"

#include <xxhash.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/files/checkpoint_pace.h"
#include "runtime/base/files/file_reader.h"
#include "runtime/base/files/strict_json.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/checkpoint/checked_json.h"
#include "runtime/engine/checkpoint/checkpoint_directory.h"
#include "runtime/engine/checkpoint/model_json.h"
#include "runtime/ir/model/model_check.h"
#include "runtime/ir/model/parameters.h"

namespace medley {
namespace {

using nlohmann::json;

constexpr char kFormat[] = "medley checkpoint";
constexpr int kOldestVersion = 1;        // lacks what says whose the checkpoint is
constexpr char kChecksum[] = "xxh3_64";  // of a file
constexpr IntegerRange kSize = {1, std::numeric_limits<int32_t>::max()};
constexpr IntegerRange kCount = {0, std::numeric_limits<int64_t>::max()};
constexpr IntegerRange kIndex = {0, std::numeric_limits<int32_t>::max()};

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

absl::StatusOr<LossScale> ParseLossScale(const json& object) {
  LossScale scale;
  ASSIGN_OR_RETURN(scale.factor, IntegerMember(object, "factor", {1, LossScale::kMost}));
  if ((scale.factor & (scale.factor - 1)) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"loss_scale\".\"factor\" is ", scale.factor, ", must be a power of two"));
  }
  ASSIGN_OR_RETURN(scale.good_steps, IntegerMember(object, "good_steps", {0, LossScale::kStepsToGrow}));
  return scale;
}

absl::StatusOr<std::vector<FileRecord>> ParseFiles(const json& array) {
  if (!array.is_array()) return absl::InvalidArgumentError("\"files\" must be a list");
  std::vector<FileRecord> files;
  for (const json& object : array) {
    FileRecord file;
    ASSIGN_OR_RETURN(file.segment, IntegerMember(object, "segment", kIndex));
    ASSIGN_OR_RETURN(file.name, StringMember(object, "name"));
    ASSIGN_OR_RETURN(file.digest.bytes, IntegerMember(object, "bytes", kCount));
    ASSIGN_OR_RETURN(file.digest.xxh3, HexMember(object, kChecksum));
    files.push_back(std::move(file));
  }
  return files;
}

json ToJson(const StepRecord& step) {
  return {{"step", step.step},
          {"loss", step.loss},
          {"gradient_norm", step.gradient_norm},
          {"learning_rate", step.learning_rate},
          {"seconds", step.seconds},
          {"ended_at_seconds", step.ended_at_seconds},
          {"loss_scale", step.loss_scale},
          {"skipped", step.skipped}};
}

// JSON has null for what is not finite.
absl::StatusOr<double> NumberOrNull(const json& object, const std::string& name) {
  ASSIGN_OR_RETURN(const json* member, Member(object, name));
  if (member->is_null()) return std::numeric_limits<double>::quiet_NaN();
  return NumberMember(object, name);
}

absl::StatusOr<std::vector<StepRecord>> ParseSteps(const json& array) {
  if (!array.is_array()) return absl::InvalidArgumentError("\"steps\" must be a list");
  std::vector<StepRecord> steps;
  for (const json& object : array) {
    StepRecord& step = steps.emplace_back();
    const int64_t least = steps.size() > 1 ? steps[steps.size() - 2].step + 1 : 1;
    ASSIGN_OR_RETURN(step.step, IntegerMember(object, "step", {least, kCount.most}));
    ASSIGN_OR_RETURN(step.loss, NumberOrNull(object, "loss"));
    ASSIGN_OR_RETURN(step.gradient_norm, NumberOrNull(object, "gradient_norm"));
    ASSIGN_OR_RETURN(step.learning_rate, NumberMember(object, "learning_rate"));
    ASSIGN_OR_RETURN(step.seconds, NumberMember(object, "seconds"));
    ASSIGN_OR_RETURN(step.ended_at_seconds, NumberMember(object, "ended_at_seconds"));
    ASSIGN_OR_RETURN(step.loss_scale, IntegerMember(object, "loss_scale", {1, LossScale::kMost}));
    ASSIGN_OR_RETURN(const json* skipped, Member(object, "skipped"));
    step.skipped = *skipped == true;
  }
  return steps;
}

absl::StatusOr<CheckpointManifest> FromJson(const json& object) {
  CheckpointManifest manifest;
  ASSIGN_OR_RETURN(manifest.job, StringMember(object, "job"));
  if (object.at("version") != kOldestVersion) {
    ASSIGN_OR_RETURN(manifest.run, StringMember(object, "run"));
    ASSIGN_OR_RETURN(manifest.spec, StringMember(object, "spec"));
    ASSIGN_OR_RETURN(manifest.launch, UnsignedMember(object, "launch"));
    ASSIGN_OR_RETURN(manifest.data_fingerprint, StringMember(object, "data_fingerprint"));
  }
  ASSIGN_OR_RETURN(manifest.step, IntegerMember(object, "step", kCount));
  if (const auto scale = object.find("loss_scale"); scale != object.end()) {
    ASSIGN_OR_RETURN(manifest.loss_scale, ParseLossScale(*scale));
  }
  ASSIGN_OR_RETURN(const json* model, Member(object, "model"));
  ASSIGN_OR_RETURN(manifest.model, ParseModelJson(*model));
  ASSIGN_OR_RETURN(const json* data, Member(object, "data"));
  ASSIGN_OR_RETURN(manifest.data, ParseData(*data));
  ASSIGN_OR_RETURN(const json* files, Member(object, "files"));
  ASSIGN_OR_RETURN(manifest.files, ParseFiles(*files));
  if (const auto steps = object.find("steps"); steps != object.end()) {
    ASSIGN_OR_RETURN(manifest.steps, ParseSteps(*steps));
  }
  RETURN_IF_ERROR(CheckManifest(manifest));
  return manifest;
}

absl::StatusOr<FileReader> OpenOfSize(const CheckpointManifest& manifest, const FileRecord& file) {
  ASSIGN_OR_RETURN(FileReader reader, FileReader::Open(absl::StrCat(manifest.directory, "/", file.name)));
  if (reader.bytes() == file.digest.bytes) return reader;
  return absl::DataLossError(
      absl::StrCat(reader.path(), ": has ", reader.bytes(), " bytes, the manifest says ", file.digest.bytes));
}

absl::Status AsDataLoss(const absl::Status& status) {
  return absl::IsInvalidArgument(status) ? absl::DataLossError(status.message()) : status;
}

}  // namespace

std::string SegmentFileName(SegmentId segment) {
  return absl::StrFormat("segment-%05d.safetensors", segment.value());
}

std::string ManifestText(const CheckpointManifest& manifest) {
  json files = json::array();
  for (const FileRecord& file : manifest.files) {
    files.push_back({{"segment", file.segment.value()},
                     {"name", file.name},
                     {"bytes", file.digest.bytes},
                     {kChecksum, HexText(file.digest.xxh3)}});
  }
  json steps = json::array();
  for (const StepRecord& step : manifest.steps) steps.push_back(ToJson(step));
  json object = {{"job", manifest.job},
                 {"run", manifest.run},
                 {"spec", manifest.spec},
                 {"launch", manifest.launch},
                 {"data_fingerprint", manifest.data_fingerprint},
                 {"step", manifest.step},
                 {"model", ModelJson(manifest.model)},
                 {"data", ToJson(manifest.data)},
                 {"files", std::move(files)},
                 {"steps", std::move(steps)}};
  if (manifest.loss_scale.has_value()) {
    object["loss_scale"] = {{"factor", manifest.loss_scale->factor},
                            {"good_steps", manifest.loss_scale->good_steps}};
  }
  return CheckedJsonText(kFormat, kManifestVersion, std::move(object));
}

absl::StatusOr<CheckpointManifest> ParseManifest(const std::string& text) {
  ASSIGN_OR_RETURN(const json object, ParseCheckedJson(text, kFormat, {kOldestVersion, kManifestVersion}));
  absl::StatusOr<CheckpointManifest> manifest = FromJson(object);
  if (!manifest.ok()) return AsDataLoss(manifest.status());
  return manifest;
}

absl::StatusOr<CheckpointManifest> ReadManifest(const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/", kManifestName);
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
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

absl::Status VerifyFile(const CheckpointManifest& manifest, const FileRecord& file,
                        Verification verification) {
  if (verification == Verification::kSizes) return OpenOfSize(manifest, file).status();
  return ReadVerified(manifest, file, [](int64_t, absl::Span<const std::byte>) {});
}

absl::Status ReadVerified(const CheckpointManifest& manifest, const FileRecord& file,
                          absl::FunctionRef<void(int64_t, absl::Span<const std::byte>)> visit) {
  ASSIGN_OR_RETURN(const FileReader reader, OpenOfSize(manifest, file));
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash(XXH3_createState(), &XXH3_freeState);
  XXH3_64bits_reset(hash.get());
  CheckpointPace pace;
  std::vector<std::byte> piece(static_cast<size_t>(std::min(pace.piece_bytes(), reader.bytes())));
  for (int64_t at = 0; at < reader.bytes(); at += static_cast<int64_t>(piece.size())) {
    piece.resize(
        static_cast<size_t>(std::min<int64_t>(static_cast<int64_t>(piece.size()), reader.bytes() - at)));
    const absl::Status read = reader.Read(at, absl::MakeSpan(piece));
    if (absl::IsOutOfRange(read)) return absl::DataLossError(read.message());  // cut since it was opened
    RETURN_IF_ERROR(read);
    XXH3_64bits_update(hash.get(), piece.data(), piece.size());
    visit(at, piece);
    pace.Passed(static_cast<int64_t>(piece.size()));
  }
  const uint64_t xxh3 = XXH3_64bits_digest(hash.get());
  if (xxh3 == file.digest.xxh3) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(reader.path(), ": has checksum ", HexText(xxh3),
                                          ", the manifest says ", HexText(file.digest.xxh3)));
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
  for (SegmentId segment = 0; segment < segments; ++segment) {
    const FileRecord& file = manifest.files[static_cast<size_t>(segment)];
    if (file.segment != segment || file.name != SegmentFileName(segment)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"files\"[", segment.value(), "] is segment ", file.segment.value(), ", file ", Excerpt(file.name),
          "; must be segment ", segment.value(), ", file \"", SegmentFileName(segment), "\""));
    }
  }
  return absl::OkStatus();
}

}  // namespace medley
