#pragma once
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/base/files/file_reader.h"
#include "runtime/ir/job/data_choice.h"

namespace medley {

// A row of token ids in a file, read by read(2). Movable. Reading is safe from any number of threads.
class TokenFile {
 public:
  // Opens `path` for a model of `vocabulary` ids (>= 1). Ids are checked as they are read, not here.
  //
  // Errors; the message names the file and the cause:
  //   NotFound, PermissionDenied, ResourceExhausted   the file cannot be opened.
  //   InvalidArgument   vocabulary < 1; not a regular file; empty; not a whole number of tokens (kUint16,
  //                     kUint32); a header that is truncated, has another magic number or version, or a token
  //                     count other than what the file holds (kLlmC).
  static absl::StatusOr<TokenFile> Open(const std::string& path, TokenFormat format, int vocabulary);

  // Tokens in the file, >= 1.
  int64_t tokens() const { return layout_.tokens; }
  // What was found; never kAutomatic.
  TokenFormat format() const { return format_; }
  const std::string& path() const { return file_.path(); }

  // Copies the ids [position, position + ids.size()) into `ids`. Blocks while the system reads them.
  //
  // Errors; `ids` then holds no defined values:
  //   OutOfRange           the range passes an end of the file.
  //   InvalidArgument      an id >= vocabulary; the message has file, position, id and vocabulary.
  //   FailedPrecondition   the file has shrunk since it was opened.
  //   Unavailable          the disk fails.
  absl::Status Read(int64_t position, absl::Span<int32_t> ids) const;

 private:
  // Where in the file the ids lie.
  struct Layout {
    size_t header_bytes = 0;
    int64_t token_bytes = 1;  // of each: 1, 2 or 4
    int64_t tokens = 0;
  };
  // `start` is the first bytes of the file, as many as a header has.
  static absl::StatusOr<Layout> LayoutOf(const FileReader& file, absl::Span<const std::byte> start,
                                         TokenFormat format);
  static absl::StatusOr<Layout> LlmCLayout(const FileReader& file, absl::Span<const std::byte> start);
  TokenFile(FileReader file, TokenFormat format, int vocabulary, Layout layout)
      : file_(std::move(file)), format_(format), vocabulary_(vocabulary), layout_(layout) {}

  FileReader file_;
  TokenFormat format_;
  int vocabulary_;
  Layout layout_;
};

}  // namespace medley
