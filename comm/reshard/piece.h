#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "comm/reshard/reshard_plan.h"

namespace medley {

// Where the elements of a message lie in a rank's slice of the tensor.
class Piece {
 public:
  // The message's columns must be within the slice's.
  Piece(const ReshardMessage& message, const ReshardSlice& slice, int64_t element_bytes);

  size_t bytes() const { return bytes_; }
  // Where the piece begins, in bytes from the slice's begin, if its bytes lie there one after the other.
  std::optional<size_t> contiguous_at() const;

  // From the slice's memory to `packed`, of bytes(), and back.
  void Pack(absl::Span<const std::byte> slice, std::byte* packed) const;
  void Unpack(const std::byte* packed, absl::Span<std::byte> slice) const;

 private:
  // Calls visit(offset in the slice, offset in the packed bytes, bytes) for every run of bytes, in order.
  template <typename Visit>
  void ForEachRun(Visit visit) const;

  size_t bytes_, begin_;                // begin_: in the piece's columns, read row by row
  size_t row_bytes_, slice_row_bytes_;  // of the piece's columns; of the slice's
  size_t row_offset_;                   // from the slice's columns to the piece's
};

}  // namespace medley
