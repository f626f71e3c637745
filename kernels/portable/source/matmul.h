#pragma once
#include "kernels/portable/source/tile_product.h"

// c[m,n] = or += a b, each operand by its strides. Groups (ceil(n / TILE), ceil(m / TILE)).
KERNEL matmul(SLICE(const float, a), SLICE(const float, b), SLICE(float, c), LONG m, LONG n, LONG k,
              LONG a_row_stride, LONG a_depth_stride, LONG b_column_stride, LONG b_depth_stride, int adds) {
  OPEN(const float, a)
  OPEN(const float, b)
  OPEN(float, c)
  SHARED float a_chunk[CHUNK_FLOATS];
  SHARED float b_chunk[CHUNK_FLOATS];
  const LONG first_row = GROUP_ID_1 * TILE, first_column = GROUP_ID_0 * TILE;
  float result[16];
  for (int i = 0; i < 16; ++i) result[i] = 0;
  for (LONG first = 0; first < k; first += MATMUL_DEPTH) {
    float part[16];
    for (int i = 0; i < 16; ++i) part[i] = 0;
    MultiplyTiles(part,
                  MakeOperand(a + first_row * a_row_stride + first * a_depth_stride, a_row_stride,
                              a_depth_stride, m - first_row),
                  MakeOperand(b + first_column * b_column_stride + first * b_depth_stride, b_column_stride,
                              b_depth_stride, n - first_column),
                  k - first < MATMUL_DEPTH ? k - first : MATMUL_DEPTH, a_chunk, b_chunk);
    for (int i = 0; i < 16; ++i) result[i] += part[i];
  }
  for (int i = 0; i < 4; ++i) {
    const LONG row = first_row + TILE_ROW + i;
    for (int j = 0; j < 4; ++j) {
      const LONG column = first_column + TILE_COLUMN + j;
      if (row >= m || column >= n) continue;
      c[row * n + column] = adds ? c[row * n + column] + result[i * 4 + j] : result[i * 4 + j];
    }
  }
}
