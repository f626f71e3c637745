#include "comm/reshard/piece.h"

#include <algorithm>
#include <cstring>

namespace medley {

Piece::Piece(const ReshardMessage& message, const ReshardSlice& slice, int64_t element_bytes)
    : bytes_(message.elements() * element_bytes),
      begin_(message.element_begin * element_bytes),
      row_bytes_((message.column_end - message.column_begin) * element_bytes),
      slice_row_bytes_((slice.column_end - slice.column_begin) * element_bytes),
      row_offset_((message.column_begin - slice.column_begin) * element_bytes) {}

template <typename Visit>
void Piece::ForEachRun(Visit visit) const {
  for (size_t done = 0, run; done < bytes_; done += run) {
    const size_t row = (begin_ + done) / row_bytes_, in_row = (begin_ + done) % row_bytes_;
    run = std::min(row_bytes_ - in_row, bytes_ - done);
    visit(row * slice_row_bytes_ + row_offset_ + in_row, done, run);
  }
}

std::optional<size_t> Piece::contiguous_at() const {
  if (bytes_ == 0) return 0;
  const size_t row = begin_ / row_bytes_, in_row = begin_ % row_bytes_;
  if (row_bytes_ != slice_row_bytes_ && in_row + bytes_ > row_bytes_) return std::nullopt;
  return row * slice_row_bytes_ + row_offset_ + in_row;
}

void Piece::Pack(absl::Span<const std::byte> slice, std::byte* packed) const {
  ForEachRun([&](size_t at, size_t packed_at, size_t bytes) {
    std::memcpy(packed + packed_at, slice.data() + at, bytes);
  });
}

void Piece::Unpack(const std::byte* packed, absl::Span<std::byte> slice) const {
  ForEachRun([&](size_t at, size_t packed_at, size_t bytes) {
    std::memcpy(slice.data() + at, packed + packed_at, bytes);
  });
}

}  // namespace medley
