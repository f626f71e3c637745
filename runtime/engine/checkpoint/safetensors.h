#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/base/files/atomic_file.h"
#include "runtime/base/files/mapped_file.h"

// The safetensors format (Hugging Face): an 8-byte little-endian header length, a JSON header, and the
// tensors' bytes one after another. README.md has the details.
namespace medley {

struct StoredTensor {
  std::string name;
  std::string dtype;  // as in the file: "F32", "BF16", ...
  std::vector<int64_t> shape;
  int64_t elements = 0;
  int64_t begin = 0, end = 0;  // bytes from the end of the header
};

// What the header of a safetensors file says. Movable.
class SafetensorsHeader {
 public:
  static constexpr int64_t kLengthBytes = 8;
  // How many bytes of a file of `file_bytes` its header takes, by its first kLengthBytes, `start`.
  // InvalidArgument: more than 100 MB, or than the file has.
  static absl::StatusOr<int64_t> BytesOf(absl::Span<const std::byte> start, int64_t file_bytes);

  // Checks and takes apart the header at the start of `bytes`, which may end where the header does, of a file
  // of `file_bytes` at `path`. Errors: those of SafetensorsFile::Open.
  static absl::StatusOr<SafetensorsHeader> Parse(const std::string& path, absl::Span<const std::byte> bytes,
                                                 int64_t file_bytes);

  const std::string& path() const { return path_; }
  // Bytes before the first tensor's.
  int64_t data_offset() const { return data_offset_; }
  // In the order of their bytes. As long as this object lives.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  // Null if there is no tensor `name`. As long as this object lives.
  const StoredTensor* Find(const std::string& name) const;
  // "__metadata__": free text by name.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // Whether tensor `name` can be read as f32 (F32, F16 and BF16 can) and has `shape`.
  // Errors; the message names the file and the tensor: NotFound, there is none; InvalidArgument, its dtype or
  // its shape is another one.
  absl::Status CheckReadable(const std::string& name, const std::vector<int64_t>& shape) const;

 private:
  explicit SafetensorsHeader(std::string path) : path_(std::move(path)) {}

  std::string path_;
  int64_t data_offset_ = 0;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, size_t> index_;
  std::map<std::string, std::string> metadata_;
};

// A safetensors file, memory-mapped. Movable. Reading is safe from any number of threads.
class SafetensorsFile {
 public:
  // Maps `path` and checks all of its header: a file that opens can be read without a further check of
  // bounds.
  //
  // Errors; the message names the file and the tensor:
  //   InvalidArgument   the header is longer than 100 MB or than the file, is not JSON, has a member that is
  //                     missing, unknown or of a wrong type; a tensor has an unknown dtype, a size other than
  //                     its shape's, or lies outside the file; tensors overlap; bytes belong to no tensor.
  //   Otherwise         the file cannot be opened: see MappedFile::Open.
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  // Those of SafetensorsHeader.
  const std::vector<StoredTensor>& tensors() const { return header_.tensors(); }
  const StoredTensor* Find(const std::string& name) const { return header_.Find(name); }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata(); }
  absl::Status CheckReadable(const std::string& name, const std::vector<int64_t>& shape) const {
    return header_.CheckReadable(name, shape);
  }
  // The whole file, header included.
  absl::Span<const std::byte> bytes() const { return file_.bytes(); }

  // Writes tensor `name`, row-major, to `values` as f32; every conversion is exact.
  // Errors, beside CheckReadable's; nothing is written: InvalidArgument, values.size() is not its elements;
  // FailedPrecondition, the file has shrunk since it was opened.
  absl::Status ReadAsF32(const std::string& name, const std::vector<int64_t>& shape,
                         absl::Span<float> values) const;

 private:
  SafetensorsFile(MappedFile file, SafetensorsHeader header)
      : file_(std::move(file)), header_(std::move(header)) {}

  MappedFile file_;
  SafetensorsHeader header_;
};

struct TensorDeclaration {
  std::string name;
  std::vector<int64_t> shape;
};

// Writes a safetensors file of F32 tensors, atomically, one tensor at a time. One thread.
class SafetensorsWriter {
 public:
  // Errors: those of AtomicFile; InvalidArgument: a name twice or "__metadata__", or a negative size.
  static absl::StatusOr<SafetensorsWriter> Create(const std::string& path,
                                                  std::vector<TensorDeclaration> tensors,
                                                  const std::map<std::string, std::string>& metadata);

  // The values of the next declared tensor, in order.
  // InvalidArgument: not as many as it has elements, or no tensor is left. Otherwise as AtomicFile::Append.
  absl::Status Append(absl::Span<const float> values);

  // FailedPrecondition: a declared tensor was not appended. Otherwise as AtomicFile::Commit.
  absl::StatusOr<FileDigest> Commit();

 private:
  SafetensorsWriter(std::unique_ptr<AtomicFile> file, std::vector<TensorDeclaration> tensors)
      : file_(std::move(file)), tensors_(std::move(tensors)) {}

  std::unique_ptr<AtomicFile> file_;
  std::vector<TensorDeclaration> tensors_;
  size_t next_ = 0;
};

}  // namespace medley
