#include "runtime/engine/checkpoint/segment_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/files/file_error.h"
#include "runtime/base/files/file_reader.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/checkpoint/safetensors.h"
#include "runtime/ir/model/parameters.h"

namespace medley {
namespace {

template <typename Tensor, typename Value>
std::vector<Tensor> Cut(const ModelConfig& config, SegmentId segment, absl::Span<Value> parameters,
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

// Bytes of a file that go to a buffer.
struct Copy {
  int64_t begin = 0, bytes = 0;
  std::byte* to = nullptr;
};

absl::Status AddCopy(const SafetensorsHeader& header, const std::string& name,
                     const std::vector<int64_t>& shape, absl::Span<float> values, std::vector<Copy>& copies) {
  RETURN_IF_ERROR(header.CheckReadable(name, shape));
  const StoredTensor& tensor = *header.Find(name);
  const int64_t bytes = static_cast<int64_t>(values.size() * sizeof(float));
  if (tensor.end - tensor.begin != bytes) {
    return absl::InvalidArgumentError(absl::StrCat(header.path(), ": \"", name, "\" has ",
                                                   tensor.end - tensor.begin, " bytes of ", tensor.dtype,
                                                   ", asked for as ", bytes, " of F32"));
  }
  copies.push_back({header.data_offset() + tensor.begin, bytes, reinterpret_cast<std::byte*>(values.data())});
  return absl::OkStatus();
}

absl::Status PlanCopies(const CheckpointManifest& manifest, const FileRecord& record,
                        absl::Span<const SegmentTensorBuffer> tensors, std::vector<Copy>& copies) {
  ASSIGN_OR_RETURN(const FileReader reader,
                   FileReader::Open(absl::StrCat(manifest.directory, "/", record.name)));
  std::vector<std::byte> bytes(
      static_cast<size_t>(std::min(reader.bytes(), SafetensorsHeader::kLengthBytes)));
  RETURN_IF_ERROR(reader.Read(0, absl::MakeSpan(bytes)));
  const absl::StatusOr<int64_t> header_bytes = SafetensorsHeader::BytesOf(bytes, reader.bytes());
  if (!header_bytes.ok()) return Annotate(header_bytes.status(), reader.path());
  bytes.resize(static_cast<size_t>(*header_bytes));
  RETURN_IF_ERROR(reader.Read(0, absl::MakeSpan(bytes)));
  ASSIGN_OR_RETURN(const SafetensorsHeader header,
                   SafetensorsHeader::Parse(reader.path(), bytes, reader.bytes()));
  for (const SegmentTensorBuffer& tensor : tensors) {
    const std::pair<const char*, absl::Span<float>> parts[] = {
        {"", tensor.parameter}, {".m", tensor.m}, {".v", tensor.v}};
    for (const auto& [suffix, values] : parts) {
      if (!values.empty())
        RETURN_IF_ERROR(AddCopy(header, tensor.name + suffix, tensor.shape, values, copies));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<SegmentTensor> CutSegment(const ModelConfig& config, SegmentId segment,
                                      absl::Span<const float> parameters, absl::Span<const float> m,
                                      absl::Span<const float> v) {
  return Cut<SegmentTensor>(config, segment, parameters, m, v);
}

std::vector<SegmentTensorBuffer> CutSegment(const ModelConfig& config, SegmentId segment,
                                            absl::Span<float> parameters, absl::Span<float> m,
                                            absl::Span<float> v) {
  return Cut<SegmentTensorBuffer>(config, segment, parameters, m, v);
}

absl::StatusOr<FileRecord> WriteSegment(const std::string& directory, SegmentId segment,
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

absl::Status ReadSegment(const CheckpointManifest& manifest, SegmentId segment,
                         absl::Span<const SegmentTensorBuffer> tensors) {
  if (segment < 0 || segment >= static_cast<int>(manifest.files.size())) {
    return absl::InvalidArgumentError(absl::StrCat("segment ", segment.value(), " of a checkpoint with ",
                                                   manifest.files.size(), " segments"));
  }
  const FileRecord& record = manifest.files[static_cast<size_t>(segment)];
  // The copies are planned by the header, and made in the one pass over the file that verifies it. What a
  // damaged header says does not matter: the checksum has the first word.
  std::vector<Copy> copies;
  const absl::Status planned = PlanCopies(manifest, record, tensors, copies);
  RETURN_IF_ERROR(
      ReadVerified(manifest, record, [&copies](int64_t offset, absl::Span<const std::byte> piece) {
        for (const Copy& copy : copies) {
          const int64_t begin = std::max(copy.begin, offset);
          const int64_t end = std::min(copy.begin + copy.bytes, offset + static_cast<int64_t>(piece.size()));
          if (begin < end)
            std::memcpy(copy.to + (begin - copy.begin), piece.data() + (begin - offset), end - begin);
        }
      }));
  return planned;
}

}  // namespace medley
