#pragma once
#include <cstdint>

#include "kernels/portable/launcher.h"

// How the kernels of kernels/portable/source count their groups; the constants are theirs (kernel_language.h,
// row_sums.h, tile_product.h).
namespace medley {

inline constexpr int64_t kGroupElements = 1024;
inline constexpr int64_t kElementTurns = 2;
inline constexpr int64_t kGroupSize = 256;
inline constexpr int64_t kRowsPerGroup = 8;
inline constexpr int64_t kRowLanes = 32;
inline constexpr int64_t kColumnsPerGroup = 128;
inline constexpr int64_t kTile = 64;

constexpr int64_t CeilDivide(int64_t count, int64_t by) { return (count + by - 1) / by; }

inline LaunchShape OverElements(int64_t elements) { return {{CeilDivide(elements, kGroupElements), 1, 1}}; }
// Of kernels whose groups take several turns.
inline LaunchShape OverElementTurns(int64_t elements) {
  return {{CeilDivide(elements, kElementTurns * kGroupElements), 1, 1}};
}

// A row of `columns` in each group, or a part of one.
inline LaunchShape OverRows(int64_t rows, int64_t columns) {
  return {{rows, CeilDivide(columns, kGroupElements), 1}};
}

// Some whole rows in each group.
inline LaunchShape OverRowGroups(int64_t rows) { return {{CeilDivide(rows, kRowsPerGroup), 1, 1}}; }

// Sums along columns: in which chunks of rows, so that there are groups enough for a large device, each with
// enough to do. By the shape alone: it fixes the order of the sums.
struct ColumnChunks {
  int64_t chunk_rows = 1, chunks = 1;
};
inline ColumnChunks ChunksOf(int64_t rows) {
  constexpr int64_t kLeastRows = 64, kMostChunks = 64;
  const int64_t chunk_rows =
      CeilDivide(rows, kMostChunks) > kLeastRows ? CeilDivide(rows, kMostChunks) : kLeastRows;
  return {chunk_rows, CeilDivide(rows, chunk_rows)};
}

}  // namespace medley
