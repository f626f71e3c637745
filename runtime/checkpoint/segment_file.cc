#include "runtime/checkpoint/segment_file.h"

#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/data/file_error.h"
#include "runtime/model/parameters.h"

namespace medley {
namespace {

template <typename Tensor, typename Value>
std::vector<Tensor> Cut(const ModelConfig& config, int segment, absl::Span<Value> parameters,
                        absl::Span<Value> m, absl::Span<Value> v) {
  std::vector<Tensor> tensors;
  size_t offset = 0;
  for (ParameterSpec& spec : SegmentParameters(config, segment)) {
    const size_t size = static_cast<size_t>(spec.elements);
    const auto part = [&](absl::Span<Value> whole) {
      return whole.empty() ? absl::Span<Value>() : whole.subspan(offset, size);
    };
    tensors.push_back({std::move(spec.name), std::move(spec.shape), part(parameters), part(m), part(v)});
    offset += size;
  }
  return tensors;
}

// Removes a manifest that the writing of `directory` makes untrue.
absl::Status RemoveManifest(const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/", kManifestName);
  if (unlink(path.c_str()) == 0) return SyncDirectory(directory);
  return errno == ENOENT ? absl::OkStatus() : FileError(errno, "remove", path);
}

}  // namespace

std::vector<SegmentTensor> CutSegment(const ModelConfig& config, int segment,
                                      absl::Span<const float> parameters, absl::Span<const float> m,
                                      absl::Span<const float> v) {
  return Cut<SegmentTensor>(config, segment, parameters, m, v);
}

std::vector<SegmentTensorBuffer> CutSegment(const ModelConfig& config, int segment,
                                            absl::Span<float> parameters, absl::Span<float> m,
                                            absl::Span<float> v) {
  return Cut<SegmentTensorBuffer>(config, segment, parameters, m, v);
}

absl::StatusOr<FileRecord> WriteSegment(const std::string& directory, int segment,
                                        absl::Span<const SegmentTensor> tensors) {
  std::vector<TensorDeclaration> declarations;
  for (const SegmentTensor& tensor : tensors) {
    for (const char* suffix : {"", ".m", ".v"}) declarations.push_back({tensor.name + suffix, tensor.shape});
  }
  RETURN_IF_ERROR(CreateDirectories(directory));
  RETURN_IF_ERROR(RemoveManifest(directory));
  FileRecord record = {.segment = segment, .name = SegmentFileName(segment)};
  const std::string path = absl::StrCat(directory, "/", record.name);
  ASSIGN_OR_RETURN(SafetensorsWriter writer, SafetensorsWriter::Create(path, std::move(declarations), {}));
  for (const SegmentTensor& tensor : tensors) {
    for (const absl::Span<const float> values : {tensor.parameter, tensor.m, tensor.v}) {
      RETURN_IF_ERROR(writer.Append(values));
    }
  }
  ASSIGN_OR_RETURN(record.digest, writer.Commit());
  return record;
}

absl::Status ReadSegment(const CheckpointManifest& manifest, int segment,
                         absl::Span<const SegmentTensorBuffer> tensors) {
  if (segment < 0 || segment >= static_cast<int>(manifest.files.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("segment ", segment, " of a checkpoint with ", manifest.files.size(), " segments"));
  }
  const FileRecord& record = manifest.files[static_cast<size_t>(segment)];
  ASSIGN_OR_RETURN(MappedFile mapped, OpenVerified(manifest, record, Verification::kChecksums));
  ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Parse(std::move(mapped)));
  for (const SegmentTensorBuffer& tensor : tensors) {
    const std::pair<const char*, absl::Span<float>> parts[] = {
        {"", tensor.parameter}, {".m", tensor.m}, {".v", tensor.v}};
    for (const auto& [suffix, values] : parts) {
      if (!values.empty()) RETURN_IF_ERROR(file.ReadAsF32(tensor.name + suffix, tensor.shape, values));
    }
  }
  return absl::OkStatus();
}

}  // namespace medley
