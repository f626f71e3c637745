#pragma once
#include "kernels/portable/source/kernel_language.h"

// A group computes products of tiles of TILE x TILE; each of its 16 x 16 work-items has 4 x 4 of the result,
// rows from TILE_ROW and columns from TILE_COLUMN on, in registers. Operands pass through shared memory in
// chunks of CHUNK_DEPTH, laid out chunk[depth, row].
#define TILE 64
#define CHUNK_DEPTH 16
#define MATMUL_DEPTH 1024        // products are summed so many at a time: one long sum of f32 would drift
#define CHUNK_STRIDE (TILE + 4)  // keeps rows apart in the banks of shared memory, and aligned to float4
#define CHUNK_FLOATS (CHUNK_DEPTH * CHUNK_STRIDE)
#define TILE_FLOATS (TILE * CHUNK_STRIDE)
#define TILE_ROW (LOCAL_ID / 16 * 4)
#define TILE_COLUMN (LOCAL_ID % 16 * 4)

// Rows [0, rows) and depths [0, depth) of a matrix whose element is at row * row_stride + depth *
// depth_stride.
typedef struct {
  const GLOBAL float* data;
  LONG row_stride, depth_stride, rows;
} Operand;

INLINE Operand MakeOperand(const GLOBAL float* data, LONG row_stride, LONG depth_stride, LONG rows) {
  Operand operand;
  operand.data = data;
  operand.row_stride = row_stride;
  operand.depth_stride = depth_stride;
  operand.rows = rows;
  return operand;
}

// Fills a chunk with depths [first, first + CHUNK_DEPTH) of the operand's first TILE rows, zeros past its
// end. Neighbouring work-items read along whichever dimension is contiguous.
INLINE void LoadChunk(LOCAL float* chunk, const Operand x, LONG first, LONG depth) {
  for (int k = 0; k < CHUNK_DEPTH * TILE / GROUP_SIZE; ++k) {
    const int i = k * GROUP_SIZE + LOCAL_ID;
    const int at_depth = x.depth_stride == 1 ? i % CHUNK_DEPTH : i / TILE;
    const int at_row = x.depth_stride == 1 ? i / CHUNK_DEPTH : i % TILE;
    const int inside = at_row < x.rows && first + at_depth < depth;
    chunk[at_depth * CHUNK_STRIDE + at_row] =
        inside ? x.data[at_row * x.row_stride + (first + at_depth) * x.depth_stride] : 0.0f;
  }
}

INLINE void Load4(float* to, const LOCAL float* from) {
  const float4 value = *(const LOCAL float4*)from;
  to[0] = value.x;
  to[1] = value.y;
  to[2] = value.z;
  to[3] = value.w;
}

// c[4,4] += the caller's part of the product of two chunks.
INLINE void MultiplyChunks(float* c, const LOCAL float* a, const LOCAL float* b) {
  for (int at = 0; at < CHUNK_DEPTH; ++at) {
    float x[4], y[4];
    Load4(x, a + at * CHUNK_STRIDE + TILE_ROW);
    Load4(y, b + at * CHUNK_STRIDE + TILE_COLUMN);
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 4; ++j) c[i * 4 + j] += x[i] * y[j];
    }
  }
}

// c[4,4] += the sum over depth of a[row, .] b[column, .]. The whole group calls it; the chunks are free
// before and after.
INLINE void MultiplyTiles(float* c, const Operand a, const Operand b, LONG depth, LOCAL float* a_chunk,
                          LOCAL float* b_chunk) {
  for (LONG first = 0; first < depth; first += CHUNK_DEPTH) {
    LoadChunk(a_chunk, a, first, depth);
    LoadChunk(b_chunk, b, first, depth);
    BARRIER();
    MultiplyChunks(c, a_chunk, b_chunk);
    BARRIER();
  }
}

// The same with the left operand in shared memory, a whole tile laid out [depth, row] as StoreTile leaves it.
INLINE void MultiplyStoredTile(float* c, const LOCAL float* tile, const Operand b, LONG depth,
                               LOCAL float* b_chunk) {
  for (int first = 0; first < TILE; first += CHUNK_DEPTH) {
    LoadChunk(b_chunk, b, first, depth);
    BARRIER();
    MultiplyChunks(c, tile + first * CHUNK_STRIDE, b_chunk);
    BARRIER();
  }
}

// Leaves the group's result as a left operand, whose depth is the result's column. A barrier must follow.
INLINE void StoreTile(LOCAL float* tile, const float* c) {
  for (int j = 0; j < 4; ++j) {
    for (int i = 0; i < 4; ++i) tile[(TILE_COLUMN + j) * CHUNK_STRIDE + TILE_ROW + i] = c[i * 4 + j];
  }
}
