#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/files/atomic_file.h"
#include "runtime/base/files/file_error.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/checkpoint/hugging_face.h"
#include "runtime/engine/checkpoint/hugging_face_family.h"
#include "runtime/engine/checkpoint/segment_file.h"
#include "runtime/ir/model/parameters.h"

namespace medley {
namespace {

using nlohmann::json;

constexpr int kByteVocabulary = 256;
constexpr char kConfigName[] = "config.json";
constexpr char kWeightsName[] = "model.safetensors";
constexpr char kByteTokensName[] = "medley.json";
// In model.safetensors: tells an export from a downloaded model.
constexpr char kStepMetadata[] = "medley_step";

absl::Status WriteWeights(const CheckpointManifest& manifest, const std::string& path) {
  std::vector<TensorDeclaration> declarations;
  const HuggingFaceFamily& family = HuggingFaceFamilyOf(manifest.model);
  const int segments = SegmentCount(manifest.model);
  for (SegmentId segment = 0; segment < segments; ++segment) {
    for (ParameterSpec& spec : SegmentParameters(manifest.model, segment)) {
      declarations.push_back({family.StoredName(spec.name), std::move(spec.shape)});
    }
  }
  const std::map<std::string, std::string> metadata = {
      {"format", "pt"}, {kStepMetadata, std::to_string(manifest.step)}, {"medley_job", manifest.job}};
  ASSIGN_OR_RETURN(SafetensorsWriter writer,
                   SafetensorsWriter::Create(path, std::move(declarations), metadata));
  for (SegmentId segment = 0; segment < segments; ++segment) {
    std::vector<float> values(static_cast<size_t>(SegmentElements(manifest.model, segment)));
    const auto buffers = CutSegment(manifest.model, segment, absl::MakeSpan(values), {}, {});
    RETURN_IF_ERROR(ReadSegment(manifest, segment, buffers));
    for (const SegmentTensorBuffer& buffer : buffers) RETURN_IF_ERROR(writer.Append(buffer.parameter));
  }
  return writer.Commit().status();
}

absl::Status WriteExport(const CheckpointManifest& manifest, const std::string& directory) {
  RETURN_IF_ERROR(WriteWeights(manifest, absl::StrCat(directory, "/", kWeightsName)));
  if (manifest.model.vocabulary == kByteVocabulary) {
    const json tokens = {{"tokens", "bytes"},
                         {"description", "Token id n is the byte n; there is no tokenizer."}};
    RETURN_IF_ERROR(
        WriteFileAtomically(absl::StrCat(directory, "/", kByteTokensName), tokens.dump(2) + "\n"));
  }
  return WriteFileAtomically(absl::StrCat(directory, "/", kConfigName),
                             HuggingFaceFamilyOf(manifest.model).write(manifest.model).dump(2) + "\n");
}

// Absent, empty, or an earlier export with nothing beside it.
absl::Status CheckReplaceable(const std::string& directory) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::symlink_status(directory, error);
  if (status.type() == std::filesystem::file_type::not_found) return absl::OkStatus();
  if (error) return FileError(error.value(), "look at", directory);
  const auto refuse = [&directory](const std::string& reason) {
    return absl::FailedPreconditionError(
        absl::StrCat(directory, ": ", reason, "; export to a new or empty directory"));
  };
  if (status.type() != std::filesystem::file_type::directory) return refuse("is not a directory");
  std::set<std::string> names;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    names.insert(entry->path().filename().string());
  }
  if (error) return FileError(error.value(), "list", directory);
  if (names.empty()) return absl::OkStatus();
  for (const std::string& name : names) {
    if (name != kConfigName && name != kWeightsName && name != kByteTokensName) {
      return refuse(absl::StrCat("holds \"", name, "\", which no export writes"));
    }
  }
  const absl::StatusOr<SafetensorsFile> weights =
      SafetensorsFile::Open(absl::StrCat(directory, "/", kWeightsName));
  if (!weights.ok()) return refuse(std::string(weights.status().message()));
  if (weights->metadata().count(kStepMetadata) == 0)
    return refuse("holds a model that was not exported by Medley");
  return absl::OkStatus();
}

// Puts `aside` where `directory` is, which the caller found replaceable.
absl::Status Swap(const std::string& aside, const std::string& directory) {
  if (rename(aside.c_str(), directory.c_str()) == 0) return absl::OkStatus();  // absent or empty
  if (errno != ENOTEMPTY && errno != EEXIST) return FileError(errno, "rename to", directory);
  if (renameat2(AT_FDCWD, aside.c_str(), AT_FDCWD, directory.c_str(), RENAME_EXCHANGE) == 0)
    return absl::OkStatus();
  if (errno != EINVAL && errno != ENOSYS) return FileError(errno, "rename to", directory);
  // A file system without exchange: for a moment there is no export, but never half of one.
  const std::string former = aside + "-former";
  if (rename(directory.c_str(), former.c_str()) != 0) return FileError(errno, "rename", directory);
  if (rename(aside.c_str(), directory.c_str()) != 0) {
    const int failure = errno;
    rename(former.c_str(), directory.c_str());
    return FileError(failure, "rename to", directory);
  }
  std::error_code ignored;
  std::filesystem::remove_all(former, ignored);
  return absl::OkStatus();
}

}  // namespace

absl::Status ExportHuggingFace(const CheckpointManifest& manifest, const std::string& directory) {
  const std::string target = directory.substr(0, directory.find_last_not_of('/') + 1);
  if (target.empty()) return absl::InvalidArgumentError(absl::StrCat("cannot export to \"", directory, "\""));
  RETURN_IF_ERROR(CheckReplaceable(target));
  const std::string parent = std::filesystem::path(target).parent_path().string();
  if (!parent.empty()) RETURN_IF_ERROR(CreateDirectories(parent));
  const std::string aside = absl::StrCat(target, kPartialMarker, getpid());
  std::error_code ignored;
  std::filesystem::remove_all(aside, ignored);
  RETURN_IF_ERROR(CreateDirectories(aside));
  absl::Status status = WriteExport(manifest, aside);
  if (status.ok()) status = Swap(aside, target);
  std::filesystem::remove_all(aside, ignored);  // what was replaced, or what failed
  RETURN_IF_ERROR(status);
  return SyncDirectory(parent.empty() ? "." : parent);
}

}  // namespace medley
