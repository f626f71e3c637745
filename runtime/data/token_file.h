#pragma once
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/data/mapped_file.h"

namespace medley {

enum class TokenFormat : uint8_t {
  kAutomatic,  // a path that ends in ".txt": kText; the magic number of llm.c: kLlmC; anything else: kUint16
  kText,       // every byte is a token, 0 .. 255
  kUint16,     // little-endian 16-bit ids and nothing else, as nanoGPT's prepare.py writes them
  kLlmC,       // llm.c: 256 little-endian int32 (20240520, version 1, token count, zeros), then 16-bit ids
};

// A row of token ids in a memory-mapped file. Movable. Reading is safe from any number of threads.
class TokenFile {
 public:
  // Opens `path` for a model of `vocabulary` ids (>= 1). Ids are checked as they are read, not here.
  //
  // Errors; the message names the file and the cause:
  //   NotFound, PermissionDenied, ResourceExhausted   the file cannot be opened.
  //   InvalidArgument   vocabulary < 1; not a regular file; empty; an odd number of bytes (kUint16); a header
  //                     that is truncated, has another magic number or version, or a token count other than
  //                     what the file holds (kLlmC); llm.c's 32-bit format under kAutomatic.
  static absl::StatusOr<TokenFile> Open(const std::string& path, TokenFormat format, int vocabulary);

  // Tokens in the file, >= 1.
  int64_t tokens() const { return tokens_; }
  // What was found; never kAutomatic.
  TokenFormat format() const { return format_; }
  const std::string& path() const { return file_.path(); }

  // Copies the ids [position, position + ids.size()) into `ids`. Blocks while the system pages them in.
  //
  // Errors; `ids` then holds no defined values:
  //   OutOfRange           the range passes an end of the file.
  //   InvalidArgument      an id >= vocabulary; the message has file, position, id and vocabulary.
  //   FailedPrecondition   the file has shrunk since it was opened.
  absl::Status Read(int64_t position, absl::Span<int32_t> ids) const;

 private:
  TokenFile(MappedFile file, TokenFormat format, int vocabulary, int64_t tokens)
      : file_(std::move(file)), format_(format), vocabulary_(vocabulary), tokens_(tokens) {}

  MappedFile file_;
  TokenFormat format_;
  int vocabulary_;
  int64_t tokens_;
};

}  // namespace medley
