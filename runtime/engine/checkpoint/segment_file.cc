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

// How a file names the parts of a tensor, in the order in which it has them.
constexpr std::pair<StoredPart, const char*> kSuffixes[] = {
    {StoredPart::kParameter, ""}, {StoredPart::kFirstMoment, ".m"}, {StoredPart::kSecondMoment, ".v"}};

absl::Span<float> PartOf(const SegmentTensorBuffer& tensor, StoredPart part) {
  return part == StoredPart::kFirstMoment    ? tensor.m
         : part == StoredPart::kSecondMoment ? tensor.v
                                             : tensor.parameter;
}

// Bytes of a file that are wanted: a part of the caller's tensor `tensor`.
struct Wanted {
  int64_t begin = 0, bytes = 0;
  size_t tensor = 0;
  StoredPart part = StoredPart::kParameter;
};

// Where `header` has f32 values under `name`. InvalidArgument: with another shape, or others than `elements` of them.
absl::StatusOr<Wanted> FindWanted(const SafetensorsHeader& header, const std::string& name,
                                  const std::vector<int64_t>& shape, int64_t elements) {
  RETURN_IF_ERROR(header.CheckReadable(name, shape));
  const StoredTensor& tensor = *header.Find(name);
  const int64_t bytes = elements * static_cast<int64_t>(sizeof(float));
  if (tensor.end - tensor.begin != bytes) {
    return absl::InvalidArgumentError(absl::StrCat(header.path(), ": \"", name, "\" has ",
                                                   tensor.end - tensor.begin, " bytes of ", tensor.dtype,
                                                   ", asked for as ", bytes, " of F32"));
  }
  return Wanted{.begin = header.data_offset() + tensor.begin, .bytes = bytes};
}

absl::StatusOr<SafetensorsHeader> ReadHeader(const std::string& path) {
  ASSIGN_OR_RETURN(const FileReader reader, FileReader::Open(path));
  std::vector<std::byte> bytes(
      static_cast<size_t>(std::min(reader.bytes(), SafetensorsHeader::kLengthBytes)));
  RETURN_IF_ERROR(reader.Read(0, absl::MakeSpan(bytes)));
  const absl::StatusOr<int64_t> header_bytes = SafetensorsHeader::BytesOf(bytes, reader.bytes());
  if (!header_bytes.ok()) return Annotate(header_bytes.status(), reader.path());
  bytes.resize(static_cast<size_t>(*header_bytes));
  RETURN_IF_ERROR(reader.Read(0, absl::MakeSpan(bytes)));
  return SafetensorsHeader::Parse(reader.path(), bytes, reader.bytes());
}

// Fills `wanted`, in the order of the file, from its header.
using PlanReading =
    absl::FunctionRef<absl::Status(const SafetensorsHeader& header, std::vector<Wanted>& wanted)>;

// Gives `take` each piece of what `plan` wants, with where it begins in that, in the order of the file.
absl::Status ReadWanted(
    const CheckpointManifest& manifest, SegmentId segment, PlanReading plan,
    absl::FunctionRef<void(const Wanted& wanted, int64_t at, absl::Span<const std::byte> piece)> take) {
  if (segment < 0 || segment >= static_cast<int>(manifest.files.size())) {
    return absl::InvalidArgumentError(absl::StrCat("segment ", segment.value(), " of a checkpoint with ",
                                                   manifest.files.size(), " segments"));
  }
  const FileRecord& record = manifest.files[static_cast<size_t>(segment)];
  // The reading is planned by the header, and done in the one pass over the file that verifies it. What a
  // damaged header says does not matter: the checksum has the first word.
  std::vector<Wanted> wanted;
  const absl::Status planned = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const SafetensorsHeader header,
                     ReadHeader(absl::StrCat(manifest.directory, "/", record.name)));
    RETURN_IF_ERROR(plan(header, wanted));
    std::sort(wanted.begin(), wanted.end(),
              [](const Wanted& left, const Wanted& right) { return left.begin < right.begin; });
    return absl::OkStatus();
  }();
  if (!planned.ok()) wanted.clear();
  RETURN_IF_ERROR(ReadVerified(manifest, record, [&](int64_t offset, absl::Span<const std::byte> piece) {
    for (const Wanted& tensor : wanted) {
      const int64_t begin = std::max(tensor.begin, offset);
      const int64_t end = std::min(tensor.begin + tensor.bytes, offset + static_cast<int64_t>(piece.size()));
      if (begin < end)
        take(tensor, begin - tensor.begin, piece.subspan(begin - offset, static_cast<size_t>(end - begin)));
    }
  }));
  return planned;
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
  return ReadWanted(
      manifest, segment,
      [&](const SafetensorsHeader& header, std::vector<Wanted>& wanted) -> absl::Status {
        for (size_t i = 0; i < tensors.size(); ++i) {
          for (const auto& [part, suffix] : kSuffixes) {
            const absl::Span<float> values = PartOf(tensors[i], part);
            if (values.empty()) continue;
            ASSIGN_OR_RETURN(Wanted found, FindWanted(header, tensors[i].name + suffix, tensors[i].shape,
                                                      static_cast<int64_t>(values.size())));
            found.tensor = i;
            found.part = part;
            wanted.push_back(found);
          }
        }
        return absl::OkStatus();
      },
      [&](const Wanted& wanted, int64_t at, absl::Span<const std::byte> piece) {
        const absl::Span<float> values = PartOf(tensors[wanted.tensor], wanted.part);
        std::memcpy(reinterpret_cast<std::byte*>(values.data()) + at, piece.data(), piece.size());
      });
}

absl::Status StreamSegment(const CheckpointManifest& manifest, SegmentId segment, TakeStored take) {
  std::vector<ParameterSpec> tensors;
  std::vector<float> values;  // of the part that is read
  absl::Status taken;
  RETURN_IF_ERROR(ReadWanted(
      manifest, segment,
      [&](const SafetensorsHeader& header, std::vector<Wanted>& wanted) -> absl::Status {
        tensors = SegmentParameters(manifest.model, segment);
        int64_t most = 0;
        for (size_t i = 0; i < tensors.size(); ++i) {
          most = std::max(most, tensors[i].elements);
          for (const auto& [part, suffix] : kSuffixes) {
            ASSIGN_OR_RETURN(Wanted found, FindWanted(header, tensors[i].name + suffix, tensors[i].shape,
                                                      tensors[i].elements));
            found.tensor = i;
            found.part = part;
            wanted.push_back(found);
          }
        }
        values.reserve(static_cast<size_t>(most));  // not two of them while it grows
        return absl::OkStatus();
      },
      [&](const Wanted& wanted, int64_t at, absl::Span<const std::byte> piece) {
        if (!taken.ok()) return;
        if (at == 0) values.resize(static_cast<size_t>(tensors[wanted.tensor].elements));
        std::memcpy(reinterpret_cast<std::byte*>(values.data()) + at, piece.data(), piece.size());
        if (at + static_cast<int64_t>(piece.size()) == wanted.bytes)
          taken = take(tensors[wanted.tensor], wanted.part, values);
      }));
  return taken;
}

}  // namespace medley
