#include "runtime/engine/checkpoint/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/bf16.h"
#include "runtime/base/f16.h"
#include "runtime/base/files/strict_json.h"
#include "runtime/base/progress.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

using nlohmann::json;

constexpr uint64_t kLongestHeader = 100'000'000;   // the limit of the format's own implementation
constexpr size_t kReadElements = size_t{1} << 18;  // between two signs of progress
constexpr char kMetadata[] = "__metadata__";

// 0 if unknown.
int64_t BytesOfDtype(const std::string& dtype) {
  static const std::map<std::string, int64_t> kSizes = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"I16", 2}, {"U16", 2}, {"F16", 2},
      {"BF16", 2}, {"I32", 4}, {"U32", 4}, {"F32", 4},     {"F64", 8},     {"I64", 8}, {"U64", 8}};
  const auto found = kSizes.find(dtype);
  return found == kSizes.end() ? 0 : found->second;
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// An array of integers >= 0.
absl::StatusOr<std::vector<int64_t>> Sizes(const json& object, const std::string& member) {
  ASSIGN_OR_RETURN(const json* array, Member(object, member));
  std::vector<int64_t> sizes;
  bool valid = array->is_array();
  for (size_t i = 0; valid && i < array->size(); ++i) {
    const json& size = (*array)[i];
    valid =
        size.is_number_unsigned() && size.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()};
    if (valid) sizes.push_back(size.get<int64_t>());
  }
  if (valid) return sizes;
  return absl::InvalidArgumentError(
      absl::StrCat("\"", member, "\" is ", Excerpt(*array), ", must be a list of integers from 0"));
}

absl::StatusOr<int64_t> ElementsOf(const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(elements, size, &elements)) {
      return absl::InvalidArgumentError(absl::StrCat("shape ", ShapeText(shape), " is too large"));
    }
  }
  return elements;
}

absl::StatusOr<StoredTensor> ParseTensor(const std::string& name, const json& entry, int64_t data_bytes) {
  StoredTensor tensor{.name = name};
  ASSIGN_OR_RETURN(tensor.dtype, StringMember(entry, "dtype"));
  ASSIGN_OR_RETURN(tensor.shape, Sizes(entry, "shape"));
  ASSIGN_OR_RETURN(const std::vector<int64_t> offsets, Sizes(entry, "data_offsets"));
  if (entry.size() != 3) {
    return absl::InvalidArgumentError("has members other than \"dtype\", \"shape\" and \"data_offsets\"");
  }
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("\"data_offsets\" is ", ShapeText(offsets),
                                                   ", must be a begin and an end within the ", data_bytes,
                                                   " bytes after the header"));
  }
  tensor.begin = offsets[0];
  tensor.end = offsets[1];
  const int64_t element_bytes = BytesOfDtype(tensor.dtype);
  if (element_bytes == 0)
    return absl::InvalidArgumentError(absl::StrCat("unknown dtype ", Excerpt(tensor.dtype)));
  ASSIGN_OR_RETURN(tensor.elements, ElementsOf(tensor.shape));
  int64_t bytes = 0;
  if (__builtin_mul_overflow(tensor.elements, element_bytes, &bytes) || bytes != tensor.end - tensor.begin) {
    return absl::InvalidArgumentError(absl::StrCat("occupies ", tensor.end - tensor.begin,
                                                   " bytes, but shape ", ShapeText(tensor.shape), " of ",
                                                   tensor.dtype, " is another size"));
  }
  return tensor;
}

absl::Status ParseMetadata(const json& entry, std::map<std::string, std::string>& metadata) {
  if (!entry.is_object()) return absl::InvalidArgumentError("must be an object");
  for (const auto& [name, value] : entry.items()) {
    if (!value.is_string())
      return absl::InvalidArgumentError(absl::StrCat(Excerpt(name), " must be a string"));
    metadata[name] = value.get<std::string>();
  }
  return absl::OkStatus();
}

// The tensors must tile the bytes after the header.
absl::Status CheckTiling(const std::vector<StoredTensor>& tensors, int64_t data_bytes) {
  int64_t covered = 0;
  const std::string* previous = nullptr;
  for (const StoredTensor& tensor : tensors) {
    if (tensor.begin < covered) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensors ", Excerpt(*previous), " and ", Excerpt(tensor.name), " overlap"));
    }
    if (tensor.begin > covered) {
      return absl::InvalidArgumentError(absl::StrCat("bytes ", covered, " to ", tensor.begin,
                                                     " before tensor ", Excerpt(tensor.name),
                                                     " belong to no tensor"));
    }
    covered = tensor.end;
    previous = &tensor.name;
  }
  if (covered == data_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("bytes ", covered, " to ", data_bytes, " after the header belong to no tensor"));
}

template <typename Convert>
void Widen(const std::byte* from, absl::Span<float> to, Convert convert) {
  for (size_t i = 0; i < to.size(); ++i) {
    uint16_t bits;  // copied out: the format does not align its tensors
    std::memcpy(&bits, from + i * sizeof(bits), sizeof(bits));
    to[i] = convert(bits);
  }
}

}  // namespace

absl::StatusOr<int64_t> SafetensorsHeader::BytesOf(absl::Span<const std::byte> start, int64_t file_bytes) {
  if (static_cast<int64_t>(start.size()) < kLengthBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("truncated: ", start.size(), " bytes, the header's length has ", kLengthBytes));
  }
  uint64_t length;
  std::memcpy(&length, start.data(), sizeof(length));
  if (length > kLongestHeader) {
    return absl::InvalidArgumentError(
        absl::StrCat("header of ", length, " bytes, at most ", kLongestHeader, " are allowed"));
  }
  if (static_cast<int64_t>(length) > file_bytes - kLengthBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("truncated: header of ", length, " bytes in a file of ", file_bytes));
  }
  return kLengthBytes + static_cast<int64_t>(length);
}

absl::StatusOr<SafetensorsHeader> SafetensorsHeader::Parse(const std::string& path,
                                                           absl::Span<const std::byte> bytes,
                                                           int64_t file_bytes) {
  SafetensorsHeader header(path);
  const absl::StatusOr<int64_t> header_bytes = BytesOf(bytes, file_bytes);
  if (!header_bytes.ok()) return Annotate(header_bytes.status(), path);
  header.data_offset_ = *header_bytes;
  const int64_t data_bytes = file_bytes - header.data_offset_;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes,
                              static_cast<size_t>(header.data_offset_ - kLengthBytes));

  const absl::StatusOr<json> parsed = ParseStrictJson(text);
  if (!parsed.ok()) return Annotate(parsed.status(), path + ": header");
  if (!parsed->is_object()) return absl::InvalidArgumentError(path + ": header: must be a JSON object");
  for (const auto& [name, entry] : parsed->items()) {
    const std::string context = absl::StrCat(path, ": ", Excerpt(name));
    if (name == kMetadata) {
      RETURN_IF_ERROR(Annotate(ParseMetadata(entry, header.metadata_), context));
      continue;
    }
    absl::StatusOr<StoredTensor> tensor = ParseTensor(name, entry, data_bytes);
    if (!tensor.ok()) return Annotate(tensor.status(), context);
    header.tensors_.push_back(*std::move(tensor));
  }
  std::sort(header.tensors_.begin(), header.tensors_.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  RETURN_IF_ERROR(Annotate(CheckTiling(header.tensors_, data_bytes), path));
  for (size_t i = 0; i < header.tensors_.size(); ++i) header.index_[header.tensors_[i].name] = i;
  return header;
}

const StoredTensor* SafetensorsHeader::Find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

absl::Status SafetensorsHeader::CheckReadable(const std::string& name,
                                              const std::vector<int64_t>& shape) const {
  const StoredTensor* tensor = Find(name);
  if (tensor == nullptr) return absl::NotFoundError(absl::StrCat(path(), ": no tensor \"", name, "\""));
  if (tensor->shape != shape) {
    return absl::InvalidArgumentError(absl::StrCat(
        path(), ": \"", name, "\" has shape ", ShapeText(tensor->shape), ", should have ", ShapeText(shape)));
  }
  if (tensor->dtype == "F32" || tensor->dtype == "F16" || tensor->dtype == "BF16") return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path(), ": \"", name, "\" has dtype ", tensor->dtype, "; F32, F16 and BF16 are read"));
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(path));
  ASSIGN_OR_RETURN(
      SafetensorsHeader header,
      SafetensorsHeader::Parse(path, mapped.bytes(), static_cast<int64_t>(mapped.bytes().size())));
  return SafetensorsFile(std::move(mapped), std::move(header));
}

absl::Status SafetensorsFile::ReadAsF32(const std::string& name, const std::vector<int64_t>& shape,
                                        absl::Span<float> values) const {
  RETURN_IF_ERROR(CheckReadable(name, shape));
  const StoredTensor& tensor = *Find(name);
  if (static_cast<int64_t>(values.size()) != tensor.elements) {
    return absl::InvalidArgumentError(absl::StrCat(path(), ": \"", name, "\" has ", tensor.elements,
                                                   " elements, asked for into ", values.size()));
  }
  const std::byte* from = bytes().data() + header_.data_offset() + tensor.begin;
  const size_t stored = tensor.dtype == "F32" ? sizeof(float) : sizeof(uint16_t);
  for (size_t at = 0; at < values.size(); at += kReadElements) {
    // Before each piece, because a file that shrinks while it is read would end the process.
    RETURN_IF_ERROR(file_.CheckNotShrunk());
    const absl::Span<float> piece = values.subspan(at, kReadElements);
    const std::byte* piece_from = from + at * stored;
    if (tensor.dtype == "BF16") {
      Widen(piece_from, piece, FromBf16);
    } else if (tensor.dtype == "F16") {
      Widen(piece_from, piece, FromF16);
    } else {
      std::memcpy(piece.data(), piece_from, piece.size() * sizeof(float));
    }
    Progress::OfProcess().Add();
  }
  return absl::OkStatus();
}

absl::StatusOr<SafetensorsWriter> SafetensorsWriter::Create(
    const std::string& path, std::vector<TensorDeclaration> tensors,
    const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  int64_t offset = 0;
  for (const TensorDeclaration& tensor : tensors) {
    const bool negative =
        std::any_of(tensor.shape.begin(), tensor.shape.end(), [](int64_t size) { return size < 0; });
    if (negative || tensor.name == kMetadata || header.contains(tensor.name)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": tensor \"", tensor.name, "\" of shape ",
                                                     ShapeText(tensor.shape), " cannot be stored"));
    }
    ASSIGN_OR_RETURN(const int64_t elements, ElementsOf(tensor.shape));
    const int64_t end = offset + elements * static_cast<int64_t>(sizeof(float));
    header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump(-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the tensors are aligned
  const uint64_t length = text.size();
  ASSIGN_OR_RETURN(std::unique_ptr<AtomicFile> file, AtomicFile::Create(path));
  RETURN_IF_ERROR(file->Append({reinterpret_cast<const std::byte*>(&length), sizeof(length)}));
  RETURN_IF_ERROR(file->Append({reinterpret_cast<const std::byte*>(text.data()), text.size()}));
  return SafetensorsWriter(std::move(file), std::move(tensors));
}

absl::Status SafetensorsWriter::Append(absl::Span<const float> values) {
  if (next_ == tensors_.size()) return absl::InvalidArgumentError("every declared tensor was appended");
  const TensorDeclaration& tensor = tensors_[next_];
  ASSIGN_OR_RETURN(const int64_t elements, ElementsOf(tensor.shape));
  if (static_cast<int64_t>(values.size()) != elements) {
    return absl::InvalidArgumentError(absl::StrCat("\"", tensor.name, "\" of shape ", ShapeText(tensor.shape),
                                                   " was given ", values.size(), " values"));
  }
  ++next_;
  return file_->Append({reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(float)});
}

absl::StatusOr<FileDigest> SafetensorsWriter::Commit() {
  if (next_ != tensors_.size()) {
    return absl::FailedPreconditionError(
        absl::StrCat("tensor \"", tensors_[next_].name, "\" was declared and not appended"));
  }
  return file_->Commit();
}

}  // namespace medley
